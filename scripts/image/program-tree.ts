import { chmod, cp, mkdir, readdir, readFile, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { BUNDLED_PROGRAMS, packagesFile } from "../build/bundle-program.ts";
import { EXECUTABLES, ownProcessor } from "../build/compile-shim.ts";
import { thirdPartyNotices } from "./notices.ts";
import { type LockedNpmPackage, lockedNpmPackage } from "./npm-lock.ts";
import type { Processor } from "./processor.ts";
import type { SpdxDocument } from "./sbom.ts";
import type { StaticLibrary } from "./static-library.ts";

/** Where our programs are in the image. */
const HOME = "opt/kube-vhostuser";
const DOCUMENTS = "usr/share/doc/kube-vhostuser";

/** What the bundles below dist/ have in them of other people's. */
export async function bundledNpmPackages(): Promise<readonly LockedNpmPackage[]> {
  const lists = await Promise.all(
    BUNDLED_PROGRAMS.map(
      async (program) => JSON.parse(await readFile(packagesFile(program), "utf8")) as string[],
    ),
  );
  return Promise.all([...new Set(lists.flat())].sort().map(lockedNpmPackage));
}

/** The part of the image that is ours, from what is built below dist/. */
export async function makeProgramTree(
  processor: Processor,
  tree: string,
  contents: { npm: readonly LockedNpmPackage[]; library: StaticLibrary; sbom: SpdxDocument },
): Promise<void> {
  for (const program of BUNDLED_PROGRAMS) {
    const to = join(tree, HOME, "dist", program);
    await mkdir(to, { recursive: true });
    for (const file of (await readdir(join("dist", program))).filter((name) => name.startsWith("main.mjs"))) {
      await cp(join("dist", program, file), join(to, file));
    }
    await chmod(join(to, "main.mjs"), 0o755);
  }
  await cp("dist/status-page", join(tree, HOME, "dist/status-page"), { recursive: true });
  const cni = processor.node === ownProcessor() ? "dist/cni" : `dist/cni-${processor.node}`;
  await mkdir(join(tree, HOME, "dist/cni"), { recursive: true });
  for (const executable of EXECUTABLES) {
    await cp(join(cni, executable), join(tree, HOME, "dist/cni", executable));
    await chmod(join(tree, HOME, "dist/cni", executable), 0o755);
  }
  await mkdir(join(tree, "usr/local/bin"), { recursive: true });
  await symlink(`/${HOME}/dist/ctl/main.mjs`, join(tree, "usr/local/bin/vhostuserctl"));
  await mkdir(join(tree, DOCUMENTS), { recursive: true });
  await cp("LICENSE", join(tree, DOCUMENTS, "LICENSE"));
  await writeFile(join(tree, DOCUMENTS, "THIRD-PARTY-NOTICES.txt"), await thirdPartyNotices(contents));
  await writeFile(
    join(tree, DOCUMENTS, "sbom.spdx.json"),
    `${JSON.stringify(contents.sbom, undefined, 2)}\n`,
  );
}
