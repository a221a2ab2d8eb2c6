// npm run lint: format, lint and types; nothing is changed (npm run format does).
import { spawnSync } from "node:child_process";

for (const [program, ...args] of [["biome", "check", "--error-on-warnings", "."], ["tsc"]] as const) {
  const { status } = spawnSync(`node_modules/.bin/${program}`, args, { stdio: "inherit" });
  if (status !== 0) process.exit(status ?? 1);
}
