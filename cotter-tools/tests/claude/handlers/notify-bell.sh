#!/bin/bash
# Rings the bell of the terminal through the protocol.
text=$(jq -r '.message // "waiting"')
jq -nc --arg bell "$(printf '\007')" --arg text "$text" \
  '{terminalSequence: $bell, systemMessage: $text}'
