"use strict";
// CommonJS: publishing is done by the release job.
const { readFileSync } = require("node:fs");

const event = JSON.parse(readFileSync(0, "utf8"));
const command = (event.tool_input && event.tool_input.command) || "";
if (/\b(npm|pnpm|yarn)\s+publish\b/.test(command)) {
  console.error("Publishing is done by the release job.");
  process.exit(2);
}
