#!/bin/sh
# Reads {"tool", "input"}; answers nothing, or {"blocked": true, "reason": "..."}.
# A path may be written from the project or in full.
if sed "s|\"$COTTER_PROJECT_DIR/|\"|g" | grep -q '"path":"\(\./\)*prod/'; then
  echo '{"blocked": true, "reason": "prod/ is written by the release only"}'
fi
