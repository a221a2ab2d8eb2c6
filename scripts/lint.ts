// npm run lint: format, lint and types; nothing is changed (npm run format does).
import { spawnSync } from "node:child_process";

const STEPS = [
  ["biome", "check", "--error-on-warnings", "."],
  ["tsc"],
  // For browsers: other globals.
  ["tsc", "--project", "src/status/page/browser"],
  // Links and anchors of all documents.
  ["remark", "--frail", "--quiet", "--no-stdout", "."],
] as const;

for (const [program, ...args] of STEPS) {
  const { status } = spawnSync(`node_modules/.bin/${program}`, args, { stdio: "inherit" });
  if (status !== 0) process.exit(status ?? 1);
}
