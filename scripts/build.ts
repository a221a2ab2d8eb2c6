// npm run build: what images ship. Bundles of the daemon and the sidecar, and the static CNI executable.
import { buildAll } from "./build/build-all.ts";

for (const { file, bytes } of await buildAll()) {
  console.log(`${file}  ${(bytes / 1024).toFixed(0)} KiB`);
}
