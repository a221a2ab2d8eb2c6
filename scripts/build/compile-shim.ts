import { execFile } from "node:child_process";
import { mkdir, readdir, rename } from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import manifest from "../../package.json" with { type: "json" };
import { Failure, systemCode } from "../../src/failure/failure.ts";

const SOURCES = "src/cni/shim";
const MUSL = "/usr/lib/x86_64-linux-musl";

/** Processors that the CNI executable is built for, as Node names them. */
export type ShimProcessor = "x64" | "arm64";

/** The executables that are built of the same sources (src/cni/shim/program.h). */
export const EXECUTABLES = ["kube-vhostuser", "kube-vhostuser-ipam"] as const;
export type Executable = (typeof EXECUTABLES)[number];

/** What to compile; by default what ships, for this machine. */
export interface ShimBuild {
  /** Default: kube-vhostuser. */
  readonly executable?: Executable;
  readonly output?: string;
  readonly processor?: ShimProcessor;
  /** AddressSanitizer and UndefinedBehaviorSanitizer, for the fuzzer: any finding ends the program. */
  readonly sanitized?: boolean;
  /** Macros of shim/bounds.h, for example shorter times. */
  readonly defines?: Readonly<Record<string, number>>;
}

const WARNINGS = ["-Wall", "-Wextra", "-Werror", "-Wshadow", "-Wconversion", "-Wvla", "-Wstrict-prototypes"];

/** Nothing of the machine or the time goes into the file: the same sources give the same bytes. */
const SHIPPED = [
  ...["-Os", "-s", "-fPIE", "-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections,--build-id=none"],
  ...["-fstack-protector-strong", "-fstack-clash-protection", "-ftrivial-auto-var-init=zero"],
  "-Wl,-z,relro,-z,now,-z,noexecstack,-z,separate-code",
];

const SANITIZED = [
  ...["-O1", "-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
];

interface Recipe {
  readonly compiler: string;
  readonly packages: string;
  readonly before: readonly string[];
  readonly after: readonly string[];
}

/** glibc, whose static files are ten times as large but come for every processor as an ordinary Debian package. */
function glibc(triplet: string, packages: string, protection: string): Recipe {
  const before = ["-static-pie", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2", protection];
  return { compiler: `${triplet}-gcc`, packages, before, after: [] };
}

/**
 * Debian's musl-gcc links a static-pie to the shared library's loader; with musl's own start files, named here, it is
 * one that needs nothing.
 */
const MUSL_X64: Recipe = {
  compiler: "musl-gcc",
  packages: "gcc musl-tools",
  before: [
    ...["-fcf-protection=full", "-static", "-nostartfiles", "-Wl,-pie,--no-dynamic-linker,-z,text"],
    ...[join(MUSL, "rcrt1.o"), join(MUSL, "crti.o")],
  ],
  after: [join(MUSL, "crtn.o")],
};

const SANITIZER: Recipe = { compiler: "gcc", packages: "gcc libc6-dev", before: [], after: [] };

function recipeFor(processor: ShimProcessor): Recipe {
  if (processor === "arm64") {
    const packages = "gcc-aarch64-linux-gnu libc6-dev-arm64-cross";
    return glibc("aarch64-linux-gnu", packages, "-mbranch-protection=standard");
  }
  if (process.arch === "x64") return MUSL_X64;
  return glibc("x86_64-linux-gnu", "gcc-x86-64-linux-gnu libc6-dev-amd64-cross", "-fcf-protection=full");
}

/** This machine's processor. */
export function ownProcessor(): ShimProcessor {
  return process.arch === "arm64" ? "arm64" : "x64";
}

/**
 * Compiles a CNI executable, static: below dist/cni for this machine, below dist/cni-<processor> for another.
 * @throws Failure part-missing with the apt command where the compiler or its C library is not installed
 */
export async function compileShim(build: ShimBuild = {}): Promise<string> {
  const {
    executable = "kube-vhostuser",
    processor = ownProcessor(),
    sanitized = false,
    defines = {},
  } = build;
  const folder = processor === ownProcessor() ? "cni" : `cni-${processor}`;
  const { output = `dist/${folder}/${executable}` } = build;
  const isIpam = executable === "kube-vhostuser-ipam";
  const recipe = sanitized ? SANITIZER : recipeFor(processor);
  await mkdir(dirname(output), { recursive: true });
  const sources = (await readdir(SOURCES))
    .filter((name) => name.endsWith(".c") && !(isIpam && name === "delegate.c"))
    .sort();
  const unfinished = `${output}.${process.pid}`;
  const flags = [
    ...["-std=gnu11", ...WARNINGS, ...(sanitized ? SANITIZED : SHIPPED)],
    ...Object.entries(defines).map(([name, value]) => `-D${name}=${value}`),
    `-DRELEASE="${manifest.version}"`,
    ...(isIpam ? ["-DIPAM_AGENT"] : []),
    ...recipe.before,
    ...sources.map((name) => join(SOURCES, name)),
    ...recipe.after,
    ...["-o", unfinished],
  ];
  try {
    await promisify(execFile)(recipe.compiler, flags);
    await rename(unfinished, output);
  } catch (error) {
    if (!isMissing(error)) throw error;
    throw new Failure({
      code: "part-missing",
      what: `${recipe.compiler} or its C library is not installed; the CNI executable for ${processor} cannot be compiled`,
      fix: `apt-get install ${recipe.packages}`,
      cause: error,
    });
  }
  return output;
}

/** A compiler without its C library finds no header or start file. */
function isMissing(error: unknown): boolean {
  if (systemCode(error) === "ENOENT") return true;
  return /(cannot find|No such file or directory|unrecognized .*specs)/.test(String(error));
}
