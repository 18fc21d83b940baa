#!/bin/sh
# Reads {"tool", "input"}; answers nothing, or {"blocked": true, "reason": "..."}.
if grep -q '"path":"\(\./\)\{0,1\}prod/'; then
  echo '{"blocked": true, "reason": "prod/ is written by the release only"}'
fi
