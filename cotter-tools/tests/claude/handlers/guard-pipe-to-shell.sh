#!/usr/bin/env bash
# Downloads that go straight into a shell.
read -r -d '' event
pattern='(curl|wget)[^|]*\|[[:space:]]*(sudo[[:space:]]+)?(ba|z|da)?sh'
if [[ "$event" =~ $pattern ]]; then
  printf '%s' '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"Save the script and read it before running it."}}'
fi
exit 0
