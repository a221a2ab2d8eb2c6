import { createHash } from "node:crypto";
import { copyFile, mkdir, readdir, readFile, rename, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { describeThrown, Failure } from "../../src/failure/failure.ts";
import { releaseSources } from "../../test/machine/apt-sources.ts";
import { runProgram } from "../../test/machine/run-program.ts";
import { TAKEN_PACKAGES } from "./debian-files.ts";
import { type DebianLock, LOCK_FILE, lockedPackage } from "./debian-lock.ts";

const LIMIT_MS = 10 * 60_000;

/** A Debian package's file. */
export interface FetchedPackage {
  readonly name: string;
  readonly version: string;
  readonly architecture: string;
  /** Name and version of the source package. */
  readonly source: string;
  readonly sourceVersion: string;
  readonly homepage: string | undefined;
  readonly file: string;
  readonly sha256: string;
}

/** Which packages, and where their files may lie. */
export interface FetchOptions {
  /** Debian's name of the processor. */
  readonly architecture: string;
  /** Exactly these; without it what the archive has now. */
  readonly lock?: DebianLock | undefined;
  /** Files that were fetched before, named by their digest; fetched ones are put there. */
  readonly downloads: string;
  /** Empty, for apt. */
  readonly scratch: string;
}

/**
 * Gets the packages of which files are taken, for any processor: through the machine's apt sources, whose signatures apt
 * checks, in an apt of its own that knows nothing of what is installed here.
 * @throws Failure part-missing where the archive does not have one, or has another under its name
 */
export async function fetchPackages(options: FetchOptions): Promise<readonly FetchedPackage[]> {
  const { architecture, lock, downloads } = options;
  await mkdir(downloads, { recursive: true });
  const names = TAKEN_PACKAGES.map(({ name }) => name);
  if (lock !== undefined) {
    const stored = names.map((name) =>
      join(downloads, `${lockedPackage(lock, architecture, name).sha256}.deb`),
    );
    const known = new Set(await readdir(downloads));
    if (stored.every((file) => known.has(basename(file)))) {
      const packages = await Promise.all(stored.map(describePackage));
      checkLock(packages, lock);
      return packages;
    }
  }
  const files = await download(options, names);
  const packages = await Promise.all(files.map(describePackage));
  if (lock !== undefined) checkLock(packages, lock);
  return Promise.all(
    names.map(async (name) => {
      const found = packages.find((each) => each.name === name);
      if (found === undefined)
        throw new Failure({ code: "part-missing", what: `apt gave no file of ${name}` });
      const file = join(downloads, `${found.sha256}.deb`);
      await copyFile(found.file, `${file}.new`);
      await rename(`${file}.new`, file);
      return { ...found, file };
    }),
  );
}

function checkLock(packages: readonly FetchedPackage[], lock: DebianLock): void {
  for (const { name, architecture, sha256, version } of packages) {
    const locked = lockedPackage(lock, architecture, name);
    if (locked.sha256 === sha256) continue;
    throw new Failure({
      code: "part-missing",
      what: `${name} ${version} has the digest ${sha256}, ${locked.sha256} is pinned`,
      where: LOCK_FILE,
      fix: "find out why: a package of the same version never changes",
    });
  }
}

async function download(options: FetchOptions, names: readonly string[]): Promise<readonly string[]> {
  const { architecture, lock, scratch } = options;
  for (const each of ["sources", "lists/partial", "archives/partial", "files"]) {
    await mkdir(join(scratch, each), { recursive: true });
  }
  for (const { name, text } of await releaseSources()) await writeFile(join(scratch, "sources", name), text);
  const settings = Object.entries({
    "APT::Architecture": architecture,
    "APT::Architectures": architecture,
    "APT::Sandbox::User": "root",
    "APT::Update::Error-Mode": "any",
    "Dir::Etc::SourceList": "/dev/null",
    "Dir::Etc::SourceParts": join(scratch, "sources"),
    "Dir::State::Lists": join(scratch, "lists"),
    "Dir::State::status": "/dev/null",
    "Dir::Cache": scratch,
    "Acquire::Languages": "none",
    "Acquire::Retries": "3",
  }).flatMap(([key, value]) => ["-o", `${key}=${value}`]);
  const env = { LC_ALL: "C", DEBIAN_FRONTEND: "noninteractive" };
  const apt = (args: readonly string[]) =>
    runProgram("apt-get", [...settings, ...args], { env, cwd: join(scratch, "files"), limitMs: LIMIT_MS });
  await apt(["update"]);
  const wanted = names.map((name) =>
    lock === undefined ? name : `${name}=${lockedPackage(lock, architecture, name).version}`,
  );
  try {
    await apt(["download", ...wanted]);
  } catch (cause) {
    const words = /^(?:.*: )?E: (.*)/m.exec(describeThrown(cause))?.[1] ?? describeThrown(cause);
    throw new Failure({
      code: "part-missing",
      what: `apt does not get the packages, perhaps for Debian's archive has newer ones: ${words}`,
      where: LOCK_FILE,
      fix:
        "for a new release: npm run image -- --renew-packages; to build an old one again, " +
        "give apt the sources of snapshot.debian.org of its day",
      cause,
    });
  }
  return (await readdir(join(scratch, "files")))
    .filter((name) => name.endsWith(".deb"))
    .map((name) => join(scratch, "files", name));
}

async function describePackage(file: string): Promise<FetchedPackage> {
  const { stdout } = await runProgram("dpkg-deb", ["--field", file]);
  const field = (key: string) => new RegExp(`^${key}: (.*)$`, "m").exec(stdout)?.[1];
  const name = field("Package") ?? "";
  const version = field("Version") ?? "";
  // "gcc-12 (12.2.0-14)" where a rebuild's version differs from its source's; no field where both have one name.
  const [, source = name, sourceVersion = version] =
    /^(\S+)(?: \((.+)\))?$/.exec(field("Source") ?? name) ?? [];
  return {
    ...{ name, version, source, sourceVersion, file },
    architecture: field("Architecture") ?? "",
    homepage: field("Homepage"),
    sha256: createHash("sha256")
      .update(await readFile(file))
      .digest("hex"),
  };
}
