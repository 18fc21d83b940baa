"""The value in capitals: the pages do not say what becomes of it."""
print('{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "DENY"}}')
