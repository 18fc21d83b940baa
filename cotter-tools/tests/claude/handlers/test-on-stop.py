#!/usr/bin/env python3
"""The agent does not stop while the tests fail, but is held back once only."""
import json
import os
import subprocess
import sys

event = json.load(sys.stdin)
if event.get("stop_hook_active"):
    sys.exit(0)
os.chdir(os.environ["CLAUDE_PROJECT_DIR"])
if os.path.exists("run-tests.sh"):
    done = subprocess.run(["sh", "run-tests.sh"], capture_output=True, text=True)
    if done.returncode:
        print(json.dumps({"decision": "block", "reason": "Tests fail: " + done.stdout.strip()}))
