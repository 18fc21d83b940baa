#!/usr/bin/env bash
# At the start of a session: the open points of the project.
file="${CLAUDE_PROJECT_DIR}/TODO.md"
if [[ -f "$file" ]]; then
  echo "Open points:"
  grep -n '^- \[ \]' "$file" | head -n 10
fi
