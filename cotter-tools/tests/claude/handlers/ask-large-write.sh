#!/bin/bash
# Large files need a look.
size=$(jq -r '.tool_input.content // "" | length')
if (( size > 2000 )); then
  echo '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "ask", "permissionDecisionReason": "more than 2000 characters"}}'
fi
