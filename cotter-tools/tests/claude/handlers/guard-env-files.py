import json
import re
import sys

event = json.load(sys.stdin)
tool = event["tool_name"]
text = event["tool_input"].get("command" if tool == "Bash" else "file_path", "")

# .env and .env.production, but not .env.example.
if re.search(r"(^|[\s/'\"=])\.env(?!\.(example|sample)\b)(\.\w+)?\b", text):
    print(json.dumps({
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": "Environment files hold credentials. See .env.example.",
        },
        "suppressOutput": True,
    }))
