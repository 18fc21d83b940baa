#!/usr/bin/env python3
"""Before `git commit`: look through what is staged for markers."""
import json
import os
import subprocess
import sys

command = json.load(sys.stdin)["tool_input"].get("command", "")
if "git commit" not in command:
    sys.exit(0)
names = subprocess.run(["git", "diff", "--cached", "--name-only"], text=True,
                       capture_output=True, cwd=os.environ["CLAUDE_PROJECT_DIR"])
for name in names.stdout.splitlines():
    if name.startswith(".claude/"):
        continue
    with open(os.path.join(os.environ["CLAUDE_PROJECT_DIR"], name), errors="replace") as file:
        if "DO NOT COMMIT" in file.read():
            print(f"{name} is marked DO NOT COMMIT", file=sys.stderr)
            sys.exit(2)
