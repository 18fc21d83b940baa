#!/bin/sh
# Written for the older page, on which exit 2 denied the request.
grep -q 'docker' || exit 0
echo "containers are started by hand" >&2
exit 2
