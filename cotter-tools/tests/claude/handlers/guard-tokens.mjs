// ESM: tokens in text for Write and Edit.
const patterns = [/\bghp_[A-Za-z0-9]{36}\b/, /\bxox[bp]-[0-9A-Za-z-]{20,}\b/];

let raw = "";
process.stdin.setEncoding("utf8");
for await (const chunk of process.stdin) raw += chunk;

const { tool_input: input = {} } = JSON.parse(raw);
const text = [input.content, input.new_string].filter(Boolean).join("\n");
const found = patterns.some((pattern) => pattern.test(text));

const output = found
  ? {
      hookSpecificOutput: {
        hookEventName: "PreToolUse",
        permissionDecision: "deny",
        permissionDecisionReason: "A token does not belong into a file.",
      },
    }
  : {};
process.stdout.write(JSON.stringify(output));
