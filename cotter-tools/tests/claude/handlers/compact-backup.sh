#!/bin/bash
# A copy of the transcript before it is compacted; a pin keeps it as it is.
event=$(cat)
transcript=$(jq -r '.transcript_path // empty' <<<"$event")
backups="$CLAUDE_PROJECT_DIR/.claude/backups"
if [ -e "$CLAUDE_PROJECT_DIR/.claude/pinned" ]; then
  echo "the conversation is pinned" >&2
  exit 2
fi
mkdir -p "$backups"
[ -f "$transcript" ] && cp "$transcript" "$backups/transcript.jsonl"
exit 0
