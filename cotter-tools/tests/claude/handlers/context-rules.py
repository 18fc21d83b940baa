import json
import sys

event = json.load(sys.stdin)
words = event.get("prompt", "").lower()
notes = []
if "test" in words:
    notes.append("Tests run with `make check`.")
if "deploy" in words:
    notes.append("Deployment is frozen on Fridays.")
if notes:
    print(json.dumps({"hookSpecificOutput": {
        "hookEventName": "UserPromptSubmit", "additionalContext": " ".join(notes)}}))
