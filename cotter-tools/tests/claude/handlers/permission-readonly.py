"""Answers the permission dialog for commands that only read."""
import json
import sys

event = json.load(sys.stdin)
command = event["tool_input"].get("command", "")
if command.split()[:2] in (["git", "log"], ["git", "show"]):
    print(json.dumps({"hookSpecificOutput": {"hookEventName": "PermissionRequest",
          "decision": {"behavior": "allow", "updatedInput": {"command": command + " --no-pager"}}}}))
