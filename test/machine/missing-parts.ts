import { readFile } from "node:fs/promises";
import { findGuestKernel } from "./guest-kernel.ts";
import { hasHugepageSize } from "./hugepage-pool.ts";
import { hasLibvirtDomains } from "./libvirt-domains.ts";
import {
  NEEDED_PACKAGES,
  type NeededPackage,
  type PackageOrigin,
  type Purpose,
  UNPACKED_PACKAGES,
} from "./package-list.ts";
import { isUnpacked, PROMTOOL } from "./packaged-program.ts";
import { runProgram } from "./run-program.ts";
import { hasTestpmd } from "./testpmd-program.ts";

/** What this machine lacks for the lab. */
export interface MissingParts {
  /** What no package can give: another Debian, no root, no hugepages. Sentences. */
  readonly conditions: readonly string[];
  /** Packages to install, by origin. */
  readonly packages: Readonly<Record<PackageOrigin, readonly string[]>>;
  /** Packages whose files are to be unpacked. */
  readonly unpacked: readonly string[];
}

/** Finds what is missing for the demo or the tests, without root and without changing anything. */
export async function missingParts(purpose: Purpose = "tests"): Promise<MissingParts> {
  const isForTests = purpose === "tests";
  const missingOf = (origin: PackageOrigin) =>
    missingPackages(NEEDED_PACKAGES[origin].filter(({ isForTestsOnly }) => isForTests || !isForTestsOnly));
  return {
    conditions: await missingConditions(),
    packages: {
      bookworm: await missingOf("bookworm"),
      "bookworm-backports": await missingOf("bookworm-backports"),
    },
    unpacked: [
      ...((await findGuestKernel()) === undefined ? [UNPACKED_PACKAGES.guestKernel] : []),
      ...(hasTestpmd() ? [] : [UNPACKED_PACKAGES.testpmd]),
      ...(!isForTests || isUnpacked(PROMTOOL) ? [] : [UNPACKED_PACKAGES.promtool]),
      ...(!isForTests || hasLibvirtDomains() ? [] : [UNPACKED_PACKAGES.libvirtDomains]),
    ],
  };
}

/** Whether nothing is missing that a package gives. */
export function hasAllPackages(missing: MissingParts): boolean {
  return Object.values(missing.packages).flat().length + missing.unpacked.length === 0;
}

/** Everything that is missing, for people: conditions first, then packages by origin. */
export function describeMissing(missing: MissingParts): string {
  const { bookworm, "bookworm-backports": backports } = missing.packages;
  const named = (what: string, names: readonly string[]) =>
    names.length === 0 ? [] : [`${what} ${names.join(" ")}`];
  return [
    ...missing.conditions,
    ...named("packages of Debian 12:", bookworm),
    ...named("packages of bookworm-backports:", backports),
    ...named("files of the packages:", missing.unpacked),
  ].join("; ");
}

/** What the reader can do about it: the command that installs what is missing. */
export function installAdvice(missing: MissingParts): string {
  const line = (options: string, names: readonly string[]) =>
    names.length === 0 ? [] : [`apt-get install --no-install-recommends ${options}${names.join(" ")}`];
  const backports = missing.packages["bookworm-backports"];
  const byHand = [...line("", missing.packages.bookworm), ...line("-t bookworm-backports ", backports)];
  const where = backports.length === 0 ? "" : " (with bookworm-backports among apt's sources)";
  return [
    "run the same command again as root on a Debian 12 that reaches its package archive",
    ...(byHand.length === 0 ? [] : [`or first, by hand${where}: ${byHand.join(" && ")}`]),
  ].join(", ");
}

async function missingConditions(): Promise<string[]> {
  const release = await readFile("/etc/os-release", "utf8").catch(() => "");
  const field = (key: string) => new RegExp(`^${key}="?([^"\n]*)"?$`, "m").exec(release)?.[1] ?? "unknown";
  const conditions: string[] = [];
  if (field("ID") !== "debian" || field("VERSION_CODENAME") !== "bookworm") {
    conditions.push(`Debian 12 (this is ${field("PRETTY_NAME")})`);
  }
  if (process.arch !== "x64") conditions.push(`an x86-64 processor (this is ${process.arch})`);
  if (process.getuid?.() !== 0) conditions.push("root (namespaces, hugepages and packages need it)");
  if (!hasHugepageSize(2048)) conditions.push("a kernel with hugepages of 2 MiB");
  return conditions;
}

async function missingPackages(needed: readonly NeededPackage[]): Promise<string[]> {
  const installed = await installedVersions(needed.map(({ name }) => name));
  const missing: string[] = [];
  for (const { name, minimum } of needed) {
    const version = installed.get(name);
    if (version === undefined || (minimum !== undefined && !(await isAtLeast(version, minimum))))
      missing.push(name);
  }
  return missing;
}

async function installedVersions(names: readonly string[]): Promise<Map<string, string>> {
  // biome-ignore lint/suspicious/noTemplateCurlyInString: these are the fields of dpkg-query
  const format = "--showformat=${Package} ${db:Status-Abbrev} ${Version}\\n";
  // dpkg-query fails when it does not know one of the names, and prints the others all the same.
  const command = 'dpkg-query --show "$@" 2> /dev/null || [ "$?" = 1 ]';
  const { stdout } = await runProgram("sh", ["-c", command, "sh", format, ...names]).catch(() => ({
    stdout: "",
  }));
  const found = new Map<string, string>();
  for (const line of stdout.split("\n")) {
    const [name, status, version] = line.split(/\s+/);
    if (name !== undefined && version !== undefined && status === "ii") found.set(name, version);
  }
  return found;
}

async function isAtLeast(version: string, minimum: string): Promise<boolean> {
  return runProgram("dpkg", ["--compare-versions", version, "ge", minimum]).then(
    () => true,
    () => false,
  );
}
