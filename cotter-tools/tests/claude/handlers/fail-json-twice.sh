#!/bin/sh
# Two answers, one after the other.
echo '{"systemMessage": "checked"}'
echo '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny"}}'
