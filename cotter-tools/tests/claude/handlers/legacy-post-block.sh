#!/bin/sh
# After an edit: debugging lines are pointed out.
path=$(sed -n 's/.*"file_path": *"\([^"]*\)".*/\1/p')
if [ -f "$path" ] && grep -q 'console\.log' "$path"; then
  echo '{"decision": "block", "reason": "console.log is left in the file"}'
fi
