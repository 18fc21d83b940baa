#!/usr/bin/env -S uv run --script
# /// script
# requires-python = ">=3.9"
# ///
import json
import sys
from pathlib import Path

event = json.load(sys.stdin)
readme = Path("README.md")
title = readme.read_text().splitlines()[0] if readme.exists() else "a project without a README"
print(json.dumps({"hookSpecificOutput": {
    "hookEventName": "SessionStart",
    "additionalContext": f"Session ({event.get('source')}) in {title}",
}}))
