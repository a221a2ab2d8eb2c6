import { build, type Plugin } from "esbuild";
import manifest from "../../package.json" with { type: "json" };
import { generatedProtos, type ProtoFolder } from "./generated-protos.ts";
import { placeFile } from "./place-file.ts";

/**
 * Settings of the C library's allocator, for each program. By default glibc raises the size from which on a block is
 * mapped alone, and then keeps in its heap what large blocks of a call were, between small ones that stay: 7 MB of a
 * sidecar, 4 of a daemon.
 */
const THRIFTY = [
  "MALLOC_ARENA_MAX=1",
  "MALLOC_MMAP_THRESHOLD_=65536",
  "MALLOC_TRIM_THRESHOLD_=65536",
  "MALLOC_TOP_PAD_=16384",
];
const ALLOCATOR = {
  daemon: THRIFTY,
  "mount-root": [],
  "cni-installer": [],
  ctl: [],
  sidecar: THRIFTY,
  "ipam-agent": THRIFTY,
  "ipam-controller": THRIFTY,
  "cni-dra": THRIFTY,
} as const;

/**
 * Node's flags for each program, in the bundle's first line so that it cannot be started without them. KubeVirt gives
 * a hook sidecar 64 MB when its VM has dedicated CPUs; docs/sidecar-internals.md has what was measured with which flags. A burst
 * of Allocate calls leaves the daemon 40 MB bigger without its own, and no faster: docs/performance.md.
 */
export const NODE_FLAGS = {
  daemon: ["--max-semi-space-size=2"],
  "mount-root": [],
  "cni-installer": [],
  ctl: [],
  "ipam-agent": ["--max-semi-space-size=2"],
  sidecar: ["--max-old-space-size=32", "--max-semi-space-size=1", "--v8-pool-size=1"],
  "ipam-controller": ["--max-semi-space-size=2"],
  "cni-dra": ["--max-semi-space-size=2"],
} as const;

/**
 * Has Node's modules loaded by require instead of import. An import reads every export, also what a getter loads first:
 * with node:http's WebSocket undici (14 MB of resident memory), with those of node:util a tenth of a start's CPU time.
 */
const nodeByRequire: Plugin = {
  name: "node-by-require",
  setup: ({ onResolve, onLoad }) => {
    const namespace = "by-require";
    onResolve({ filter: /^node:/ }, ({ kind, path }) =>
      kind === "import-statement" ? { path, namespace } : undefined,
    );
    onLoad({ filter: /.*/, namespace }, async ({ path }) => {
      const names = Object.keys(await import(path)).filter((name) => /^(?!default$)[\w$]+$/.test(name));
      const exports = names.map((name) => `export const ${name} = /* @__PURE__ */ (() => all.${name})();`);
      return {
        contents: `const all = require(${JSON.stringify(path)}); ${exports.join(" ")} export default all;`,
      };
    });
  },
};

/** zod's messages in forty languages, a fifth of a bundle: every program would hold them in memory, none shows one. */
const withoutLocales: Plugin = {
  name: "without-locales",
  setup: ({ onLoad }) => {
    onLoad({ filter: /\/zod\/v4\/locales\/index\.js$/ }, () => ({ contents: "export {};" }));
  },
};

/** Name of a program that is bundled. */
export type BundledProgram = keyof typeof NODE_FLAGS;

/** All of them. */
export const BUNDLED_PROGRAMS = Object.keys(NODE_FLAGS) as readonly BundledProgram[];

/** The file that each program starts with. */
const SOURCES: Readonly<Record<BundledProgram, string>> = {
  daemon: "src/daemon/main.ts",
  sidecar: "src/sidecar/main.ts",
  ctl: "src/ctl/main.ts",
  "ipam-agent": "src/ipam-agent/main.ts",
  "mount-root": "src/node-setup/mount-root/main.ts",
  "cni-installer": "src/node-setup/cni-installer/main.ts",
  "ipam-controller": "src/ipam-controller/main.ts",
  "cni-dra": "src/cni-dra/main.ts",
};

/** The folders under proto/ whose messages it sends or reads. */
const PROTOS: Readonly<Record<BundledProgram, readonly ProtoFolder[]>> = {
  daemon: ["kubelet"],
  sidecar: ["kubevirt"],
  ctl: ["kubelet"],
  "ipam-agent": ["kubelet"],
  "mount-root": ["kubelet"],
  "cni-installer": ["kubelet"],
  "ipam-controller": ["kubelet"],
  "cni-dra": ["kubelet", "nri"],
};

/** The path of the list of npm packages whose code is in a bundle, each by its directory: `node_modules/zod`. */
export const packagesFile = (program: BundledProgram): string => `dist/${program}/packages.json`;

/**
 * One executable file for one program: dist/<program>/main.mjs. Beside it is the list of npm packages whose code went in.
 */
export async function bundleProgram(program: BundledProgram): Promise<string> {
  const outfile = `dist/${program}/main.mjs`;
  const { outputFiles, metafile } = await build({
    entryPoints: [SOURCES[program]],
    outfile,
    write: false,
    bundle: true,
    metafile: true,
    platform: "node",
    target: "node24",
    format: "esm",
    minifyWhitespace: true,
    minifySyntax: true,
    legalComments: "linked",
    plugins: [withoutLocales, nodeByRequire, generatedProtos(...PROTOS[program])],
    // grpc-js loads it for its channelz and ORCA services, which no program serves.
    external: ["@grpc/proto-loader"],
    // grpc-js and pino are CommonJS and call require for Node's own modules.
    banner: {
      js: `#!${["/usr/bin/env -S", ...ALLOCATOR[program], "node", ...NODE_FLAGS[program]].join(" ")}\n// kube-vhostuser ${manifest.version}\nimport { createRequire as __createRequire } from "node:module"; const require = __createRequire(import.meta.url);`,
    },
    logLevel: "warning",
  });
  for (const { path, contents } of outputFiles) {
    await placeFile(path, contents, path.endsWith(outfile) ? 0o755 : 0o644);
  }
  const used = Object.values(metafile.outputs).flatMap(({ inputs }) =>
    Object.entries(inputs).filter(([, { bytesInOutput }]) => bytesInOutput > 0),
  );
  // Through the last node_modules of the path: a package may have another's older release below it.
  const packages = used.flatMap(
    ([file]) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/.exec(file)?.[0] ?? [],
  );
  await placeFile(packagesFile(program), `${JSON.stringify([...new Set(packages)].sort())}\n`);
  return outfile;
}
