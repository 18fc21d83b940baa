#!/usr/bin/env python3
"""`npm install` becomes `pnpm install`, and runs without a question."""
import json
import re
import sys

given = json.load(sys.stdin)["tool_input"]
changed = re.sub(r"^npm (install|run|test)\b", r"pnpm \1", given.get("command", ""))
if changed != given.get("command"):
    print(json.dumps({"hookSpecificOutput": {
        "hookEventName": "PreToolUse",
        "permissionDecision": "allow",
        "permissionDecisionReason": "this project uses pnpm",
        "updatedInput": {**given, "command": changed},
    }}))
