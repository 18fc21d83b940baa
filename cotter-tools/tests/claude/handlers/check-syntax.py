"""Compile the Python file that was written; tell the model where it breaks."""
import json
import sys

path = json.load(sys.stdin)["tool_input"].get("file_path", "")
if path.endswith(".py"):
    try:
        with open(path) as source:
            compile(source.read(), path, "exec")
    except SyntaxError as error:
        print(json.dumps({"decision": "block",
                          "reason": f"{path}:{error.lineno}: {error.msg}"}))
