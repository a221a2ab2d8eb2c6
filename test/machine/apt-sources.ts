import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { Failure } from "../../src/failure/failure.ts";

/** One file for a directory of apt sources. */
export interface SourceFile {
  readonly name: string;
  readonly text: string;
}

interface SourceEntry {
  readonly form: "sources" | "list";
  readonly text: string;
  readonly suites: readonly string[];
  readonly uris: readonly string[];
}

const RELEASE = "bookworm";
const BACKPORTS = "bookworm-backports";

/**
 * Reads the machine's apt sources and gives those of Debian 12 unchanged, plus a copy of the archive's entry for
 * backports: address, key and options stay the machine's own.
 * @throws Failure part-missing where the machine has no entry for Debian 12
 */
export async function sourcesWithBackports(etcApt = "/etc/apt"): Promise<SourceFile[]> {
  const { entries, archive } = await readReleaseEntries(etcApt);
  const known = entries.some(({ suites }) => suites.includes(BACKPORTS));
  const all = known ? entries : [...entries, withSuite(archive, BACKPORTS)];
  return asFiles(all);
}

/**
 * The machine's apt sources of Debian 12, without those that have nothing but backports.
 * @throws Failure part-missing where the machine has no entry for Debian 12
 */
export async function releaseSources(etcApt = "/etc/apt"): Promise<SourceFile[]> {
  const { entries } = await readReleaseEntries(etcApt);
  return asFiles(entries.filter(({ suites }) => suites.some((suite) => suite !== BACKPORTS)));
}

function asFiles(entries: readonly SourceEntry[]): SourceFile[] {
  return entries.map((entry, index) => ({ name: `lab-${index}.${entry.form}`, text: `${entry.text}\n` }));
}

async function readReleaseEntries(etcApt: string): Promise<{ entries: SourceEntry[]; archive: SourceEntry }> {
  const entries = (await readEntries(etcApt)).filter(({ suites }) =>
    suites.some((suite) => suite === RELEASE || suite.startsWith(`${RELEASE}-`)),
  );
  const archive = chooseArchive(entries.filter(({ suites }) => suites.includes(RELEASE)));
  if (archive !== undefined) return { entries, archive };
  throw new Failure({
    code: "part-missing",
    what: `apt has no source of Debian 12's main archive (suite ${RELEASE}, component main)`,
    where: etcApt,
    fix: "add one to /etc/apt/sources.list.d",
  });
}

/**
 * A file with the archive's entry for the source packages of backports: the machine's own entries seldom have sources,
 * and those of all of Debian are not needed.
 * @throws Failure part-missing where the machine has no entry for Debian 12
 */
export async function sourcePackagesOfBackports(etcApt = "/etc/apt"): Promise<SourceFile> {
  const files = await sourcesWithBackports(etcApt);
  const file = files.findLast(({ text }) => text.includes(BACKPORTS));
  if (file === undefined) throw new Failure({ code: "internal", what: "no source of backports was made" });
  const text = file.name.endsWith(".sources")
    ? file.text
        .replace(fieldPattern("Types"), "Types: deb-src")
        .replace(fieldPattern("Suites"), `Suites: ${BACKPORTS}`)
    : file.text.replace(/^\s*deb\s/, "deb-src ");
  return { name: file.name.replace(/^lab-\d+/, "lab-source"), text };
}

async function readEntries(etcApt: string): Promise<SourceEntry[]> {
  const parts = join(etcApt, "sources.list.d");
  const names = await readdir(parts).catch(() => []);
  const paths = [join(etcApt, "sources.list"), ...names.toSorted().map((name) => join(parts, name))];
  const entries: SourceEntry[] = [];
  for (const path of paths) {
    const text = await readFile(path, "utf8").catch(() => "");
    if (path.endsWith(".list")) entries.push(...readOneLineSources(text));
    if (path.endsWith(".sources")) entries.push(...readStanzas(text));
  }
  return entries;
}

/** `deb [options] URI suite component...`, see sources.list(5). */
function readOneLineSources(text: string): SourceEntry[] {
  return text.split("\n").flatMap((line) => {
    const found = /^\s*deb\s+(?:\[[^\]]*\]\s+)?(\S+)\s+(\S+)\s+([^#]*)/.exec(line);
    if (found === null) return [];
    const [, uri = "", suite = "", components = ""] = found;
    if (!components.split(/\s+/).includes("main")) return [];
    return [{ form: "list" as const, text: line.trim(), suites: [suite], uris: [uri] }];
  });
}

/** deb822 stanzas, see sources.list(5); a field continues in lines that begin with a blank. */
function readStanzas(text: string): SourceEntry[] {
  const withoutComments = text.replace(/^#.*\n?/gm, "");
  return withoutComments.split(/\n\s*\n/).flatMap((stanza) => {
    const words = (key: string) =>
      (fieldPattern(key).exec(stanza)?.[1] ?? "").split(/\s+/).filter((word) => word !== "");
    const enabled = !["no", "false", "0"].includes(words("Enabled")[0]?.toLowerCase() ?? "yes");
    if (!enabled || !words("Types").includes("deb") || !words("Components").includes("main")) return [];
    return [{ form: "sources" as const, text: stanza.trim(), suites: words("Suites"), uris: words("URIs") }];
  });
}

function fieldPattern(key: string): RegExp {
  return new RegExp(`^${key}:((?:.*)(?:\\n[ \\t].*)*)`, "im");
}

/** Among several sources with a suite of this name the one that looks like Debian's archive. */
function chooseArchive(entries: readonly SourceEntry[]): SourceEntry | undefined {
  return entries.find(({ uris }) => uris.some((uri) => /\/debian\/?$/.test(uri))) ?? entries[0];
}

function withSuite(entry: SourceEntry, suite: string): SourceEntry {
  const text =
    entry.form === "sources"
      ? entry.text.replace(fieldPattern("Suites"), `Suites: ${suite}`)
      : entry.text.replace(new RegExp(`(\\s)${RELEASE}(?=\\s)`), `$1${suite}`);
  return { ...entry, text, suites: [suite] };
}
