#!/bin/bash
# After Write and Edit: remove blanks at the end of lines.
file=$(jq -r '.tool_input.file_path // empty')
[ -n "$file" ] && [ -f "$file" ] || exit 0
case "$file" in
  *.md|*.txt|*.py) "$(dirname "$0")/bin/trim" "$file" ;;
esac
exit 0
