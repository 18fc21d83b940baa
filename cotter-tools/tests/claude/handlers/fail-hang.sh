#!/bin/sh
# Waits for an answer that does not come.
cat >/dev/null
echo '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": "too late"}}'
exec sleep 30
