#!/bin/sh
# Right content, but nobody made it executable.
echo "blocked" >&2
exit 2
