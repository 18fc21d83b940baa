#!/usr/bin/env -S uv run --script
# /// script
# requires-python = ">=3.9"
# dependencies = []
# ///
"""Append each prompt to .claude/logs/prompts.jsonl."""
import json
import sys
from pathlib import Path

event = json.load(sys.stdin)
folder = Path.cwd() / ".claude" / "logs"
folder.mkdir(parents=True, exist_ok=True)
with (folder / "prompts.jsonl").open("a") as log:
    log.write(json.dumps({"session": event.get("session_id"), "prompt": event["prompt"]}) + "\n")
sys.exit(0)
