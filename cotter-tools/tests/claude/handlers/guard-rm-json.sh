#!/usr/bin/env bash
# The same guard, with JSON on stdout and exit 0.
set -u
event=$(cat)
command=$(printf '%s' "$event" | jq -r '.tool_input.command // ""')
case "$command" in
  *"rm -rf"*|*"rm -fr"*|*"find "*"-delete"*)
    jq -n --arg why "Removal of whole folders needs a person: $command" '{
      hookSpecificOutput: {
        hookEventName: "PreToolUse",
        permissionDecision: "deny",
        permissionDecisionReason: $why
      }
    }' ;;
esac
