#!/usr/bin/env python3
"""Secrets in text that is about to be written."""
import json
import re
import sys

PATTERNS = {
    "cloud access key": re.compile(r"\bAKIA[0-9A-Z]{16}\b"),
    "private key": re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----"),
    "assigned password": re.compile(r"(?i)\b(passwd|password|api_key)\s*[:=]\s*['\"][^'\"]{8,}['\"]"),
}
given = json.load(sys.stdin).get("tool_input", {})
texts = [given.get("content", ""), given.get("new_string", "")]
texts += [edit.get("new_string", "") for edit in given.get("edits", [])]
for name, pattern in PATTERNS.items():
    if any(pattern.search(text) for text in texts):
        print(f"Secret found ({name}). Read it from the environment.", file=sys.stderr)
        sys.exit(2)
sys.exit(0)
