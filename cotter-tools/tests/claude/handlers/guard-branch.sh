#!/usr/bin/env bash
# No edits on the main branch: ask git which branch this is.
cd "${CLAUDE_PROJECT_DIR:-$PWD}" || exit 0
cat >/dev/null
branch=$(git branch --show-current 2>/dev/null)
if [ "$branch" = "main" ] || [ "$branch" = "master" ]; then
  jq -nc --arg branch "$branch" '{hookSpecificOutput: {hookEventName: "PreToolUse",
    permissionDecision: "deny",
    permissionDecisionReason: ("Create a branch first; this is " + $branch + ".")}}'
fi
exit 0
