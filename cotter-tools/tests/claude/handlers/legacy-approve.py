#!/usr/bin/env python3
"""The older output: approve or block at the top level."""
import json
import sys

event = json.load(sys.stdin)
command = event["tool_input"].get("command", "")
if command.startswith("cargo "):
    print(json.dumps({"decision": "approve", "reason": "build tool", "suppressOutput": True}))
elif "truncate" in command:
    print(json.dumps({"decision": "block", "reason": "truncate loses data"}))
