#!/usr/bin/env python3
"""A guard whose debugging line comes before its JSON."""
import json
import sys

event = json.load(sys.stdin)
print("checking", event["tool_name"])
print(json.dumps({"hookSpecificOutput": {
    "hookEventName": "PreToolUse", "permissionDecision": "deny",
    "permissionDecisionReason": "never seen"}}))
