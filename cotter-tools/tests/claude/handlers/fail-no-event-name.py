"""The required hookEventName is missing."""
print('{"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "x"}}')
