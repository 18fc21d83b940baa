// ESM: let each written source file end with exactly one newline.
import { readFile, writeFile } from "node:fs/promises";
import { extname } from "node:path";

const chunks = [];
for await (const chunk of process.stdin) chunks.push(chunk);
const { tool_input: input } = JSON.parse(Buffer.concat(chunks).toString());

if (input?.file_path && [".ts", ".js", ".css"].includes(extname(input.file_path))) {
  const text = await readFile(input.file_path, "utf8");
  const wanted = text.replace(/\n*$/, "\n");
  if (wanted !== text) {
    await writeFile(input.file_path, wanted);
    console.log(JSON.stringify({ systemMessage: `formatted ${input.file_path}` }));
  }
}
