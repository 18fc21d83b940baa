"""A subagent does not stop without a report."""
import json
import sys

event = json.load(sys.stdin)
text = event.get("last_assistant_message") or ""
if not event.get("stop_hook_active") and len(text.split()) < 5:
    sys.stderr.write("Write a report of at least five words.\n")
    sys.exit(2)
