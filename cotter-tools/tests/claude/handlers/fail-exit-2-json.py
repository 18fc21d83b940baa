"""Says allow and exits 2: the exit code blocks."""
import json
import sys

print(json.dumps({"hookSpecificOutput": {
    "hookEventName": "PreToolUse", "permissionDecision": "allow",
    "permissionDecisionReason": "looks fine"}}))
print("does not look fine", file=sys.stderr)
sys.exit(2)
