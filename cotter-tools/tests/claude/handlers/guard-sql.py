"""Only reading statements for the database server."""
import json
import re
import sys

query = json.load(sys.stdin)["tool_input"].get("sql", "")
statements = [part.strip() for part in query.split(";") if part.strip()]
bad = [s for s in statements if not re.match(r"(?i)(select|explain|show|with)\b", s)]
if bad:
    json.dump({"hookSpecificOutput": {
        "hookEventName": "PreToolUse", "permissionDecision": "deny",
        "permissionDecisionReason": "Only reading statements: " + bad[0]}}, sys.stdout)
