#!/usr/bin/env python3
"""An existing file is read before it is edited. Reads are kept in .claude/state."""
import json
import os
import sys
from pathlib import Path

event = json.load(sys.stdin)
path = event["tool_input"]["file_path"]
known = Path(os.environ["CLAUDE_PROJECT_DIR"], ".claude", "state", "read.txt")
known.parent.mkdir(parents=True, exist_ok=True)
seen = known.read_text().splitlines() if known.exists() else []
if event["tool_name"] == "Read":
    known.write_text("\n".join([*seen, path]) + "\n")
elif path not in seen and os.path.exists(path):
    print(f"Read {path} before you change it.", file=sys.stderr)
    sys.exit(2)
