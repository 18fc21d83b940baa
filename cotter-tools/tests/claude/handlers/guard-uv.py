#!/usr/bin/env -S uv run --script
# /// script
# requires-python = ">=3.9"
# ///
"""Refuse dangerous commands, and keep a log of all of them."""
import json
import re
import sys
from pathlib import Path


def is_dangerous(command):
    plain = " ".join(command.lower().split())
    return re.search(r"\brm\s+.*-[a-z]*r[a-z]*f|\brm\s+.*-[a-z]*f[a-z]*r|\bshutdown\b", plain)


try:
    event = json.load(sys.stdin)
    folder = Path.cwd() / "logs"
    folder.mkdir(exist_ok=True)
    with (folder / "pre_tool_use.jsonl").open("a") as log:
        log.write(json.dumps(event) + "\n")
    if event.get("tool_name") == "Bash" and is_dangerous(event["tool_input"].get("command", "")):
        print("BLOCKED: dangerous command", file=sys.stderr)
        sys.exit(2)
except ValueError:
    pass
sys.exit(0)
