#!/bin/bash
# Runs the project's tests after an edit of a source file; the model sees failures.
path=$(jq -r '.tool_input.file_path // ""')
[[ "$path" == *.py ]] || exit 0
cd "$CLAUDE_PROJECT_DIR" || exit 1
[ -f run-tests.sh ] || exit 0
if ! output=$(sh run-tests.sh 2>&1); then
  printf 'tests fail after %s:\n%s\n' "${path##*/}" "$output" | tail -n 20 >&2
  exit 2
fi
