#!/bin/bash
# Forced pushes and pushes to the release branch.
input=$(cat)
cmd=$(jq -r .tool_input.command <<< "$input")
if echo "$cmd" | grep -qE 'git +push .*(--force([^-]|$)|-f( |$))'; then
  echo "Use --force-with-lease, or ask for a review." >&2
  exit 2
elif echo "$cmd" | grep -qE 'git +push +[a-z]+ +release(/| |$)'; then
  echo "The release branch is pushed by the build server." >&2
  exit 2
fi
exit 0
