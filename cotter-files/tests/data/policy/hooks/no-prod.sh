#!/bin/sh
if grep -Eq '"(file_)?path":"/srv/prod'; then
  echo "Production paths are off-limits in this session." >&2
  exit 1
fi
