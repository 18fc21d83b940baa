"""Another program asks the person: leave the call for later."""
import json
import sys

json.load(sys.stdin)
print(json.dumps({"hookSpecificOutput": {
    "hookEventName": "PreToolUse", "permissionDecision": "defer",
    "permissionDecisionReason": "not shown", "updatedInput": {"ignored": True}}}))
