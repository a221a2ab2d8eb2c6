import { chmod, lstat, mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { DebianLock } from "./debian-lock.ts";
import { makeDebianTree } from "./debian-tree.ts";
import { fetchPackages } from "./fetch-packages.ts";
import { makeNodeTree } from "./node-tree.ts";
import type { Processor } from "./processor.ts";
import { bundledNpmPackages, makeProgramTree } from "./program-tree.ts";
import { sbom } from "./sbom.ts";
import type { SourceState } from "./source-state.ts";
import { staticLibrary } from "./static-library.ts";

/** The three parts of an image, a layer each. */
export const PARTS = ["debian", "node", "programs"] as const;

/** What an image is made of and where. */
export interface ContextOptions {
  readonly state: SourceState;
  /** Pinned Debian packages; without them what the archive has now. */
  readonly lock?: DebianLock | undefined;
  /** Directory of the files of all processors: <architecture>/<part>. */
  readonly context: string;
  /** Files of earlier builds. */
  readonly downloads: string;
  /** Empty directory that is removed afterwards by the caller. */
  readonly scratch: string;
}

/** Gathers the files of one processor's image, and its bill of materials. @returns the bill's file */
export async function makeContext(processor: Processor, options: ContextOptions): Promise<string> {
  const { state, lock, downloads } = options;
  const context = join(options.context, processor.oci);
  const scratch = join(options.scratch, processor.oci);
  const apt = join(scratch, "apt");
  const part = (name: (typeof PARTS)[number]) => join(context, name);
  await rm(context, { recursive: true, force: true });
  for (const name of PARTS) await mkdir(part(name), { recursive: true });
  await mkdir(apt, { recursive: true });
  const debian = await fetchPackages({ architecture: processor.oci, lock, downloads, scratch: apt });
  await makeDebianTree(debian, processor, { tree: part("debian"), scratch: join(scratch, "debian") });
  const node = await makeNodeTree(processor, {
    tree: part("node"),
    downloads,
    scratch: join(scratch, "node"),
  });
  const [npm, library] = await Promise.all([bundledNpmPackages(), staticLibrary(processor)]);
  const bill = sbom({ ...state, processor, debian, node, npm, library });
  await makeProgramTree(processor, part("programs"), { npm, library, sbom: bill });
  await settleModes(context);
  const file = join(options.context, "..", `sbom-${processor.oci}.spdx.json`);
  await writeFile(file, `${JSON.stringify(bill, undefined, 2)}\n`);
  return file;
}

/** All may read, only root may write, whatever the umask here or where a file was packed. */
async function settleModes(tree: string): Promise<void> {
  await chmod(tree, 0o755);
  for (const entry of await readdir(tree, { recursive: true, withFileTypes: true })) {
    if (entry.isSymbolicLink()) continue;
    const path = join(entry.parentPath, entry.name);
    const runs = entry.isDirectory() || ((await lstat(path)).mode & 0o100) !== 0;
    await chmod(path, runs ? 0o755 : 0o644);
  }
}
