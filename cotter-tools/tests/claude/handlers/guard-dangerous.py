#!/usr/bin/env python3
"""A table of commands that nobody wants to run by accident."""
import json
import re
import sys

RULES = [
    (r"\bmkfs(\.\w+)?\b", "formats a disk"),
    (r"\bdd\b.*\bof=/dev/", "writes to a device"),
    (r">\s*/dev/sd[a-z]", "writes to a device"),
    (r"\bchmod\s+(-R\s+)?0?777\b", "opens files to everybody"),
    (r":\s*\(\s*\)\s*\{.*\};\s*:", "starts processes without end"),
    (r"\bgit\s+reset\s+--hard\b", "throws away uncommitted work"),
]


def main():
    try:
        event = json.load(sys.stdin)
    except ValueError as error:
        print(f"cannot read the event: {error}", file=sys.stderr)
        return 1
    command = event.get("tool_input", {}).get("command", "")
    findings = [why for pattern, why in RULES if re.search(pattern, command)]
    for why in findings:
        print(f"refused, this {why}: {command}", file=sys.stderr)
    return 2 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
