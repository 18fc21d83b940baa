import json, re, sys

prompt = json.load(sys.stdin).get("prompt", "")
if re.search(r"(?i)\b(password|token|secret)\s*(is|[:=])\s*\S{6,}", prompt):
    print(json.dumps({"decision": "block", "reason": "The prompt seems to hold a credential."}))
