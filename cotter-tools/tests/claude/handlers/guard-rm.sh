#!/bin/bash
# Refuse recursive removal by exit code.
command=$(jq -r '.tool_input.command // ""')
pattern='(^|[;&|[:space:]])rm[[:space:]]+(-[[:alnum:]]*[rR]|--recursive)'
if [[ "$command" =~ $pattern ]]; then
  echo "Recursive rm is not allowed here; name the files." >&2
  exit 2
fi
exit 0
