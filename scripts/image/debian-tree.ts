import { chmod, cp, mkdir, readdir, readFile, readlink, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { Failure } from "../../src/failure/failure.ts";
import { runProgram } from "../../test/machine/run-program.ts";
import { TAKEN_PACKAGES } from "./debian-files.ts";
import type { FetchedPackage } from "./fetch-packages.ts";
import type { Processor } from "./processor.ts";

/** Names of libraries and programs before Debian merged them into /usr. */
const MERGED = ["bin", "sbin", "lib", "lib64"];
const PASSWD = [
  "root:x:0:0:root:/:/usr/sbin/nologin",
  // KubeVirt's user of virt-launcher pods and their sidecars.
  "qemu:x:107:107:qemu:/:/usr/sbin/nologin",
  "nobody:x:65534:65534:nobody:/:/usr/sbin/nologin",
];
const GROUP = ["root:x:0:", "qemu:x:107:", "nogroup:x:65534:"];

/**
 * The part of the image that is Debian's: the files that are taken from each package, its copyright file, and its
 * description where scanners look for those of an image without dpkg.
 */
export async function makeDebianTree(
  packages: readonly FetchedPackage[],
  processor: Processor,
  { tree, scratch }: { tree: string; scratch: string },
): Promise<void> {
  for (const directory of [
    "usr/bin",
    "usr/sbin",
    "usr/lib",
    "usr/lib64",
    "var/lib/dpkg/status.d",
    "etc",
    "run",
  ]) {
    await mkdir(join(tree, directory), { recursive: true });
  }
  for (const name of MERGED) await symlink(`usr/${name}`, join(tree, name));
  await symlink("/run", join(tree, "var/run"));
  await writeFile(join(tree, "etc/passwd"), `${PASSWD.join("\n")}\n`);
  await writeFile(join(tree, "etc/group"), `${GROUP.join("\n")}\n`);
  await writeFile(join(tree, "etc/nsswitch.conf"), "hosts: files dns\n");
  for (const { name, file } of packages) {
    const unpacked = join(scratch, name);
    await mkdir(unpacked, { recursive: true });
    await runProgram("dpkg-deb", ["--extract", file, unpacked]);
    await takeFiles(name, processor, { tree, unpacked });
    const { stdout } = await runProgram("dpkg-deb", ["--field", file]);
    await writeFile(join(tree, "var/lib/dpkg/status.d", name), stdout);
  }
}

async function takeFiles(
  name: string,
  processor: Processor,
  { tree, unpacked }: { tree: string; unpacked: string },
): Promise<void> {
  const taken = TAKEN_PACKAGES.find((each) => each.name === name);
  const document = new RegExp(`^usr/share/doc/${name.replaceAll("+", "\\+")}(/copyright)?$`);
  const unmatched = new Set(taken?.files(processor));
  for (const entry of await readdir(unpacked, { recursive: true, withFileTypes: true })) {
    const from = join(entry.parentPath, entry.name);
    const path = from.slice(unpacked.length + 1);
    const pattern = taken?.files(processor).find((each) => each.test(path));
    // A package's documents may be a link to those of another.
    const isDocument = document.test(path) && !entry.isDirectory();
    if (pattern === undefined && !isDocument) continue;
    for (const each of unmatched) if (each.test(path)) unmatched.delete(each);
    const to = join(tree, merged(path));
    await mkdir(dirname(to), { recursive: true });
    if (entry.isSymbolicLink()) {
      await symlink(await readlink(from), to);
      continue;
    }
    await cp(from, to);
    // Without the bits by which mount(8) makes its caller root.
    await chmod(to, path.includes("/share/") || path.startsWith("etc/") ? 0o644 : await plainMode(from));
  }
  if (unmatched.size === 0) return;
  throw new Failure({
    code: "part-missing",
    what: `the package ${name} has no file ${[...unmatched].join(", ")}`,
    where: "scripts/image/debian-files.ts",
    fix: "see with dpkg-deb --contents where it has gone",
  });
}

async function plainMode(file: string): Promise<number> {
  const start = (await readFile(file)).subarray(0, 4);
  return start.toString("latin1") === "\x7fELF" ? 0o755 : 0o644;
}

function merged(path: string): string {
  const [top = ""] = path.split("/");
  return MERGED.includes(top) ? join("usr", path) : path;
}
