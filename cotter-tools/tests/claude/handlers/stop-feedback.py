"""Feedback at the end of a turn, without an objection."""
import json
import sys

event = json.load(sys.stdin)
if not event.get("stop_hook_active"):
    print(json.dumps({"hookSpecificOutput": {
        "hookEventName": "Stop", "additionalContext": "Run the tests before you finish."}}))
