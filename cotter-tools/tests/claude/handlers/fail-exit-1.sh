#!/bin/bash
# A guard with the usual exit code of Unix, which does not block.
if grep -q 'DROP TABLE'; then
  echo "DROP TABLE is forbidden" >&2
  exit 1
fi
