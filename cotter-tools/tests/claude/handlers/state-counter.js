// Every third edit: remind the model of the changelog.
const fs = require("fs");
const path = require("path");

const event = JSON.parse(fs.readFileSync(0, "utf8"));
const folder = path.join(process.env.CLAUDE_PROJECT_DIR || process.cwd(), ".claude", "data");
const file = path.join(folder, "edits.json");
let counts = {};
try {
  counts = JSON.parse(fs.readFileSync(file, "utf8"));
} catch {
  fs.mkdirSync(folder, { recursive: true });
}
const count = (counts[event.session_id] || 0) + 1;
counts[event.session_id] = count;
fs.writeFileSync(file, JSON.stringify(counts));
if (count % 3 === 0) {
  console.log(JSON.stringify({
    hookSpecificOutput: {
      hookEventName: "PostToolUse",
      additionalContext: `${count} edits so far. CHANGELOG.md has no new line yet.`,
    },
  }));
}
