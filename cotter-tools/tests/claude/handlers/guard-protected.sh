#!/bin/bash
# Refuse to change files that other tools own.
protected=(".env" "Cargo.lock" "migrations/" ".github/workflows/")
target=$(jq -r '.tool_input.file_path // .tool_input.notebook_path // empty')
[[ -z "$target" ]] && exit 0
for part in "${protected[@]}"; do
  if [[ "$target" == *"$part"* ]]; then
    echo "Protected: $target is covered by '$part'." >&2
    exit 2
  fi
done
