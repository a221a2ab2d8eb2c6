import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { Failure } from "../../src/failure/failure.ts";
import { CACHE_DIRECTORY } from "./cache.ts";
import { runProgram } from "./run-program.ts";

/** libvirt's own test domains for QEMU: what any part of a domain can look like. Not ours, so never committed. */
const LIBVIRT_DOMAINS = join(CACHE_DIRECTORY, "libvirt-domains");

/** Whether they were unpacked. */
export function hasLibvirtDomains(): boolean {
  return existsSync(LIBVIRT_DOMAINS);
}

/**
 * Paths of the domains.
 * @throws Failure part-missing where they were not unpacked
 */
export async function findLibvirtDomains(): Promise<readonly string[]> {
  const names = await readdir(LIBVIRT_DOMAINS).catch(() => []);
  if (names.length > 0) return names.toSorted().map((name) => join(LIBVIRT_DOMAINS, name));
  throw new Failure({
    code: "part-missing",
    what: "libvirt's test domains are not on this machine",
    where: LIBVIRT_DOMAINS,
    fix: "run npm test, which takes them out of Debian's source package of libvirt (apt-get source libvirt)",
  });
}

/** Takes the domains out of the upstream archive. */
export async function unpackLibvirtDomains(archive: string): Promise<void> {
  await mkdir(CACHE_DIRECTORY, { recursive: true });
  const scratch = await mkdtemp(join(CACHE_DIRECTORY, "unpack-"));
  try {
    const parts = ["--wildcards", "*/tests/qemuxmlconfdata/*.xml"];
    await runProgram("tar", ["-xJf", archive, "-C", scratch, "--transform", "s#.*/##", ...parts]);
    await rename(scratch, LIBVIRT_DOMAINS);
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}
