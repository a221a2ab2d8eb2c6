import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { Failure } from "../../src/failure/failure.ts";
import { CACHE_DIRECTORY } from "./cache.ts";
import { runProgram } from "./run-program.ts";

/** A kernel for guests, unpacked from its Debian package and not installed. */
export interface GuestKernel {
  readonly version: string;
  readonly directory: string;
  /** vmlinuz. */
  readonly image: string;
  /** The directory `kernel` of its modules. */
  readonly modules: string;
}

/** The kernel in the cache, or undefined where none was unpacked yet; of several the newest. */
export async function findGuestKernel(cacheDirectory = CACHE_DIRECTORY): Promise<GuestKernel | undefined> {
  const names = await readdir(cacheDirectory).catch(() => []);
  const newest = names
    .filter((name) => name.startsWith("kernel-"))
    .toSorted(new Intl.Collator("en", { numeric: true }).compare)
    .at(-1);
  return newest === undefined ? undefined : describe(join(cacheDirectory, newest));
}

/** Unpacks a linux-image package into the cache; a kernel of the same version that is there already stays. */
export async function unpackGuestKernel(
  packageFile: string,
  cacheDirectory = CACHE_DIRECTORY,
): Promise<GuestKernel> {
  await mkdir(cacheDirectory, { recursive: true });
  const scratch = await mkdtemp(join(cacheDirectory, "unpack-"));
  try {
    await runProgram("dpkg-deb", ["-x", packageFile, scratch]);
    const image = (await readdir(join(scratch, "boot"))).find((name) => name.startsWith("vmlinuz-"));
    if (image === undefined) {
      throw new Failure({
        code: "part-missing",
        what: "the kernel package holds no vmlinuz",
        where: packageFile,
      });
    }
    const directory = join(cacheDirectory, `kernel-${image.slice("vmlinuz-".length)}`);
    if (!existsSync(directory)) await rename(scratch, directory);
    return describe(directory);
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

function describe(directory: string): GuestKernel {
  const version = directory.slice(directory.lastIndexOf("/kernel-") + "/kernel-".length);
  return {
    version,
    directory,
    image: join(directory, "boot", `vmlinuz-${version}`),
    modules: join(directory, "lib/modules", version, "kernel"),
  };
}
