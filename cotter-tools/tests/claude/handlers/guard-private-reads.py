#!/usr/bin/env python3
import fnmatch
import json
import os
import sys

PRIVATE = ["*/.ssh/*", "*.pem", "*/.aws/credentials", "*/.netrc", "*/.config/gh/*"]

event = json.load(sys.stdin)
path = os.path.expanduser(event["tool_input"].get("file_path", ""))
hit = next((glob for glob in PRIVATE if fnmatch.fnmatch(path, glob)), None)
if hit:
    answer = {"hookSpecificOutput": {"hookEventName": "PreToolUse"}}
    answer["hookSpecificOutput"]["permissionDecision"] = "deny"
    answer["hookSpecificOutput"]["permissionDecisionReason"] = f"private file ({hit})"
    print(json.dumps(answer, indent=2))
