"""Small formatter: two spaces of indentation and a newline at the end."""
import json
import sys

path = sys.argv[1]
try:
    with open(path) as source:
        value = json.load(source)
except ValueError as error:
    sys.exit(f"not valid JSON: {error}")
with open(path, "w") as target:
    target.write(json.dumps(value, indent=2) + "\n")
