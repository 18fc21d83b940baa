"""Denies with JSON, then ends with 1, as after an error while cleaning up."""
import json
import sys

print(json.dumps({"hookSpecificOutput": {
    "hookEventName": "PreToolUse", "permissionDecision": "deny",
    "permissionDecisionReason": "denied before the error"}}))
sys.exit(1)
