#!/bin/sh
# Takes the path out with sed and refuses generated folders.
path=$(sed -n 's/.*"file_path": *"\([^"]*\)".*/\1/p' | head -n 1)
for folder in dist build target node_modules; do
  case "$path" in
    */"$folder"/*) printf 'generated file in %s: change its source\n' "$folder" >&2; exit 2 ;;
  esac
done
