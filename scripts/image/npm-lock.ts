import { readFile } from "node:fs/promises";
import { Failure } from "../../src/failure/failure.ts";

/** A package of package-lock.json. */
export interface LockedNpmPackage {
  /** As package-lock.json has it: `node_modules/zod`. */
  readonly directory: string;
  readonly name: string;
  readonly version: string;
  /** Digest of its archive, as npm writes it: `sha512-` and base64. */
  readonly integrity: string;
  /** SPDX expression. */
  readonly license: string;
}

/**
 * What package-lock.json says of the package in a directory.
 * @throws Failure part-missing where it does not have it, or without a licence
 */
export async function lockedNpmPackage(directory: string): Promise<LockedNpmPackage> {
  const lock = JSON.parse(await readFile("package-lock.json", "utf8")) as {
    packages: Record<string, { version?: string; integrity?: string; license?: string }>;
  };
  const { version, integrity, license } = lock.packages[directory] ?? {};
  const name = directory.replace(/^.*node_modules\//, "");
  if (version !== undefined && integrity !== undefined && license !== undefined) {
    return { directory, name, version, integrity, license };
  }
  throw new Failure({
    code: "part-missing",
    what: `package-lock.json has no version, digest or licence of ${directory}`,
    where: "package-lock.json",
  });
}
