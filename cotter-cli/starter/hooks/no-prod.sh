#!/bin/sh
# On standard input: the call, as one JSON object. Standard error: the reason, which the model is told.
if grep -q '"toolInput":.*prod'; then
  echo "this would change production; work on a copy instead" >&2
  exit 1
fi
