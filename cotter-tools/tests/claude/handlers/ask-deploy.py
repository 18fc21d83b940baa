import json, sys
c = json.load(sys.stdin)["tool_input"].get("command", "")
if any(word in c for word in ("terraform apply", "kubectl delete", "helm upgrade")):
    print(json.dumps({"hookSpecificOutput": {"hookEventName": "PreToolUse",
          "permissionDecision": "ask", "permissionDecisionReason": "Changes the cluster: " + c}}))
