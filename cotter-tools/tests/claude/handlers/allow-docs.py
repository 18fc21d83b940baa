"""Documentation may be read without a question."""
import json
import sys
from pathlib import PurePath

event = json.load(sys.stdin)
if PurePath(event["tool_input"].get("file_path", "")).suffix in {".md", ".rst", ".txt"}:
    print(json.dumps({"hookSpecificOutput": {
        "hookEventName": "PreToolUse", "permissionDecision": "allow",
        "permissionDecisionReason": "documentation"}}))
