"""Write failed tool calls to ~/.claude/failures.log and remind the model."""
import json
import pathlib
import sys

event = json.load(sys.stdin)
first_line = str(event.get("error", "")).splitlines()[:1]
target = pathlib.Path.home() / ".claude" / "failures.log"
target.parent.mkdir(exist_ok=True)
with target.open("a") as log:
    log.write(f"{event.get('tool_name')}: {' '.join(first_line)}\n")
print(json.dumps({"hookSpecificOutput": {
    "hookEventName": "PostToolUseFailure",
    "additionalContext": "This failure is recorded in ~/.claude/failures.log.",
}}))
