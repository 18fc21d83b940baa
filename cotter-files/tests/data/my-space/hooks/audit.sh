#!/bin/sh
# [audit] and what was called, with its input and its result.
printf '[audit] %s\n' "$(cat)" >> "$COTTER_PROJECT_DIR/audit.log"
