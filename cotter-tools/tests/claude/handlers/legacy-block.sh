#!/bin/bash
# The older block, built with jq.
jq -c 'if (.tool_input.url // "" | startswith("http://"))
  then {decision: "block", reason: "only https"} else empty end'
