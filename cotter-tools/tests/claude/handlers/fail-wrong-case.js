// Keys in another spelling are other keys.
process.stdin.resume();
console.log(JSON.stringify({
  HookSpecificOutput: { HookEventName: "PreToolUse", PermissionDecision: "deny" },
  Decision: "block",
}));
process.exit(0);
