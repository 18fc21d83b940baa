// One line of JSON for each tool call, below the home folder.
const fs = require("fs");
const os = require("os");
const path = require("path");

let raw = "";
process.stdin.on("data", (chunk) => (raw += chunk));
process.stdin.on("end", () => {
  const event = JSON.parse(raw);
  const folder = path.join(os.homedir(), ".claude", "logs");
  fs.mkdirSync(folder, { recursive: true });
  const line = { tool: event.tool_name, session: event.session_id, at: Date.now() };
  fs.appendFileSync(path.join(folder, "tools.ndjson"), JSON.stringify(line) + "\n");
});
