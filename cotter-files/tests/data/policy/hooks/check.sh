#!/bin/sh
# The event comes as JSON on standard input. Exit 0 allows, anything else blocks, and standard error is
# the reason; standard output may say more.
event=$(cat)
case "$event" in
  *'"toolInput":{'*'force'*)
    echo "the policy knows no force" >&2
    exit 1 ;;
  *'"toolInput":{'*'secret'*)
    echo '{"continue": false, "reason": "secrets stay where they are"}' ;;
  *'"toolInput":{'*'draft'*)
    echo '{"additionalContext": "Drafts are reviewed on Mondays."}' ;;
esac
