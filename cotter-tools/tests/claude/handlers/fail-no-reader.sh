#!/bin/sh
# Answers without reading its input.
echo "no tools on weekends" >&2
exit 2
