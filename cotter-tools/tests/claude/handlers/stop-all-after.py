"""Ends the session when a file says so."""
import json
import os
import sys

json.load(sys.stdin)
if os.path.exists(os.path.join(os.environ["CLAUDE_PROJECT_DIR"], "STOP")):
    print(json.dumps({"continue": False, "stopReason": "the file STOP is there"}))
