#!/bin/sh
# Keeps writes out of system directories.
case "$(cat)" in
  *'"path":"/etc/'* | *'"path":"/usr/'*)
    echo '{"Blocked": true, "Reason": "Cannot modify system directories"}' ;;
esac
