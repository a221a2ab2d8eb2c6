import { chmod } from "node:fs/promises";
import { build } from "esbuild";

/**
 * Node's flags for each program, in the bundle's first line so that nobody can start it without. KubeVirt gives
 * a hook sidecar 64 MB when its VM has dedicated CPUs; docs/sidecar.md has what was measured with which flags. A burst
 * of Allocate calls leaves the daemon 30 MB bigger without its own, and no faster: docs/performance.md.
 */
const NODE_FLAGS = {
  daemon: ["--max-semi-space-size=2", "--optimize-for-size"],
  "mount-root": [],
  sidecar: ["--max-old-space-size=32", "--max-semi-space-size=1", "--lite-mode", "--v8-pool-size=1"],
} as const;

/**
 * One executable file for one program: dist/<program>/main.mjs. It finds proto/ two folders up, as the sources do, so an
 * image keeps dist/ and proto/ side by side.
 */
export async function bundleProgram(program: keyof typeof NODE_FLAGS): Promise<string> {
  const outfile = `dist/${program}/main.mjs`;
  await build({
    entryPoints: [`src/${program}/main.ts`],
    outfile,
    bundle: true,
    platform: "node",
    target: "node24",
    format: "esm",
    minifyWhitespace: true,
    legalComments: "linked",
    // grpc-js and pino are CommonJS and call require for Node's own modules.
    banner: {
      js: `#!${["/usr/bin/env -S node", ...NODE_FLAGS[program]].join(" ")}\nimport { createRequire as __createRequire } from "node:module"; const require = __createRequire(import.meta.url);`,
    },
    logLevel: "warning",
  });
  await chmod(outfile, 0o755);
  return outfile;
}
