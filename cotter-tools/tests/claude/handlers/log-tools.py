#!/usr/bin/env python3
"""Keep every tool event in .claude/logs/post_tool_use.json, one JSON array."""
import json
import os
import sys
from pathlib import Path

event = json.load(sys.stdin)
folder = Path(os.environ.get("CLAUDE_PROJECT_DIR", ".")) / ".claude" / "logs"
folder.mkdir(parents=True, exist_ok=True)
log = folder / "post_tool_use.json"
try:
    entries = json.loads(log.read_text())
except (FileNotFoundError, ValueError):
    entries = []
entries.append(event)
log.write_text(json.dumps(entries, indent=2))
