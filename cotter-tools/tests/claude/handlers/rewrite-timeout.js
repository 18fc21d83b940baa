// A time limit for commands that have none, without any decision.
let raw = "";
process.stdin.on("data", (chunk) => (raw += chunk)).on("end", () => {
  const { tool_input: input } = JSON.parse(raw);
  if (input.timeout) return;
  console.log(JSON.stringify({
    hookSpecificOutput: {
      hookEventName: "PreToolUse",
      updatedInput: { ...input, timeout: 60000 },
    },
  }));
});
