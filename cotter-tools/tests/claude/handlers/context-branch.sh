#!/bin/sh
# Plain text for the model with each prompt.
cat >/dev/null
cd "$CLAUDE_PROJECT_DIR" || exit 0
echo "Branch: $(git branch --show-current 2>/dev/null || echo none)"
echo "Changed files: $(git status --porcelain 2>/dev/null | wc -l | tr -d ' ')"
