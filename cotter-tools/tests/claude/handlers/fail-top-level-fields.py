"""The fields of hookSpecificOutput at the top level: ignored."""
import json
print(json.dumps({"permissionDecision": "deny", "additionalContext": "never seen"}))
