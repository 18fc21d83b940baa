#!/usr/bin/env python3
"""A guard that expects a field which other tools do not have."""
import json
import sys

event = json.load(sys.stdin)
if "curl" in event["tool_input"]["command"]:
    sys.exit(2)
