#!/usr/bin/env bash
# Append each shell command to .claude/logs/commands.log, with the time.
set -euo pipefail
event=$(cat)
dir="${CLAUDE_PROJECT_DIR:-.}/.claude/logs"
mkdir -p "$dir"
printf '%s\t%s\n' "$(date -u +%FT%TZ)" "$(jq -r '.tool_input.command // ""' <<<"$event")" \
  >>"$dir/commands.log"
