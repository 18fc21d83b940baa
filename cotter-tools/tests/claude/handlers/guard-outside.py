"""Keep file tools inside the project; links are followed first."""
import json
import os
import sys
from pathlib import Path

event = json.load(sys.stdin)
root = Path(os.environ["CLAUDE_PROJECT_DIR"]).resolve()
path = Path(event["tool_input"].get("file_path") or root)
resolved = (root / path).resolve()
if resolved != root and root not in resolved.parents:
    sys.stderr.write(f"{resolved} is outside of the project\n")
    sys.exit(2)
