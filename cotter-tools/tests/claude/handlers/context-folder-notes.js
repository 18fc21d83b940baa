// The notes of a folder, next to the result of the tool.
const fs = require("fs");
const path = require("path");

const event = JSON.parse(fs.readFileSync(0, "utf8"));
const file = event.tool_input.file_path;
const notes = file && path.join(path.dirname(file), "NOTES.md");
if (notes && fs.existsSync(notes)) {
  console.log(JSON.stringify({
    hookSpecificOutput: {
      hookEventName: "PreToolUse",
      additionalContext: fs.readFileSync(notes, "utf8").trim(),
    },
  }));
}
