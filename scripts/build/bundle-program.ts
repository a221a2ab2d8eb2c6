import { build } from "esbuild";

/**
 * One file for one program: dist/<program>/main.mjs. It finds proto/ two folders up, as the sources do, so an
 * image keeps dist/ and proto/ side by side.
 */
export async function bundleProgram(program: "daemon" | "sidecar"): Promise<string> {
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
      js: 'import { createRequire as __createRequire } from "node:module"; const require = __createRequire(import.meta.url);',
    },
    logLevel: "warning",
  });
  return outfile;
}
