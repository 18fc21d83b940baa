"""At most three web requests in ten minutes, counted in .claude/state."""
import json
import os
import sys
import time
from pathlib import Path

json.load(sys.stdin)
state = Path(os.environ["CLAUDE_PROJECT_DIR"]) / ".claude" / "state" / "web.json"
state.parent.mkdir(parents=True, exist_ok=True)
now = time.time()
stamps = json.loads(state.read_text()) if state.exists() else []
stamps = [stamp for stamp in stamps if now - stamp < 600]
if len(stamps) >= 3:
    print("Three web requests in ten minutes are enough; use what you have.", file=sys.stderr)
    sys.exit(2)
partial = state.with_suffix(".tmp")
partial.write_text(json.dumps(stamps + [now]))
partial.replace(state)
