#!/bin/sh
# The input whole, with another text in it.
sed -n 's/\\t/  /g; s/^.*"input":\({.*}\)}$/{"Modified": \1}/p'
