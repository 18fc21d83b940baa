#!/bin/bash
# The first shell command of each session needs a person; later ones do not.
event=$(cat)
session=$(jq -r '.session_id' <<<"$event" | tr -cd '[:alnum:]_-')
marker="$CLAUDE_PROJECT_DIR/.claude/cache/asked-$session"
if [ ! -e "$marker" ]; then
  mkdir -p "${marker%/*}"
  : >"$marker"
  jq -n '{hookSpecificOutput: {hookEventName: "PreToolUse", permissionDecision: "ask",
    permissionDecisionReason: "First command of this session"}}'
fi
