#!/usr/bin/python3
"""Prefer the faster tools. Absolute interpreter, as on servers."""
import json, re, sys

command = json.load(sys.stdin).get("tool_input", {}).get("command", "")
advice = {r"^\s*grep\s+-[a-zA-Z]*r": "search with rg", r"\bfind\s+\.\s": "list with fd"}
for pattern, hint in advice.items():
    if re.search(pattern, command):
        print(f"In this project: {hint}.", file=sys.stderr)
        sys.exit(2)
