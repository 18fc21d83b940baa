// Denies network tools in the permission dialog.
const event = JSON.parse(require("fs").readFileSync(0, "utf8"));
if (/\b(nc|telnet|ssh)\b/.test(event.tool_input.command || "")) {
  console.log(JSON.stringify({
    hookSpecificOutput: {
      hookEventName: "PermissionRequest",
      decision: { behavior: "deny", message: "no connections to other hosts" },
    },
  }));
}
