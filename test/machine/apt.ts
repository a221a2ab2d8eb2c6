import { cp, mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describeThrown, Failure } from "../../src/failure/failure.ts";
import { plural } from "../../src/status/words.ts";
import { type SourceFile, sourcePackagesOfBackports, sourcesWithBackports } from "./apt-sources.ts";
import { CACHE_DIRECTORY } from "./cache.ts";
import type { LabRun } from "./lab-run.ts";
import { BACKPORTED_SOURCES } from "./package-list.ts";
import { identifyProcess } from "./process-table.ts";
import { type RunOptions, runProgram } from "./run-program.ts";

/** apt with sources, pins and lists of its own; the machine's apt configuration is not changed. */
export interface Apt {
  /** Finishes what a killed dpkg left half done, where it did. */
  repair(): Promise<void>;
  /** Installs packages without their recommendations. */
  install(names: readonly string[]): Promise<void>;
  /** Downloads the package file and gives its path; of a meta package the linux-image that it depends on. */
  download(name: string): Promise<string>;
  /** Downloads the upstream archive of a source package in backports and gives its path. */
  downloadSource(name: string): Promise<string>;
}

const LOCK_LIMIT_S = 600;
const LIMIT_MS = 900_000;
const ENVIRONMENT = { DEBIAN_FRONTEND: "noninteractive", LC_ALL: "C.UTF-8" };

/** Fetches the package lists of Debian 12 and backports into a directory that goes with the run. */
export async function openApt(run: LabRun): Promise<Apt> {
  const directory = join(CACHE_DIRECTORY, `apt-${run.name}`);
  const trace = run.journal.note({ kind: "directory", path: directory });
  run.cleanup.defer(`remove ${directory}`, async () => {
    await rm(directory, { recursive: true, force: true });
    run.journal.strike(trace);
  });
  const options = await prepare(directory, [
    ...(await sourcesWithBackports()),
    await sourcePackagesOfBackports(),
  ]);
  const apt = async (args: readonly string[], more: RunOptions = {}) => {
    const complaints: string[] = [];
    try {
      await runProgram("apt-get", [...options, ...args], {
        env: ENVIRONMENT,
        limitMs: LIMIT_MS,
        onLine: listener(run, complaints),
        sharesTerminal: false,
        ...more,
      });
    } catch (cause) {
      if (run.cleanup.signal.aborted) throw cause;
      const why = complaints.length === 0 ? describeThrown(cause) : complaints.slice(0, 5).join("; ");
      throw new Failure({ code: "part-missing", what: `apt-get ${args[0]} failed: ${why}`, cause });
    }
  };
  const signal = run.cleanup.signal;
  run.progress("fetching Debian's package lists");
  await apt(["update"], { signal });

  const configure = (onSpawn: (pid: number) => void) =>
    runProgram("dpkg", ["--configure", "-a", "--force-confdef", "--force-confold"], {
      env: ENVIRONMENT,
      limitMs: LIMIT_MS,
      sharesTerminal: false,
      onSpawn,
    });
  return {
    repair: async () => {
      if (!(await isHalfDone())) return;
      run.progress("dpkg was interrupted earlier: letting it finish");
      try {
        // It stops at packages whose dependencies were not unpacked yet; apt then brings those.
        await unbroken(run, configure).catch(() => undefined);
        await unbroken(run, (onSpawn) => apt(["install", "--fix-broken"], { onSpawn }));
      } catch (cause) {
        throw new Failure({
          code: "part-missing",
          what: `dpkg was interrupted earlier and cannot finish: ${describeThrown(cause)}`,
          fix: "run as root: dpkg --configure -a && apt-get --fix-broken install",
          cause,
        });
      }
    },
    install: async (names) => {
      if (names.length === 0) return;
      run.progress(`downloading ${plural(names.length, "package")} and the dependencies`);
      await apt(["install", "--download-only", ...names], { signal });
      run.progress("installing them");
      await unbroken(run, (onSpawn) => apt(["install", "--no-download", ...names], { onSpawn }));
    },
    download: async (name) => {
      const file = join(directory, "files");
      const target = name.startsWith("linux-image-") ? await dependency(options, name) : name;
      run.progress(`downloading ${target}`);
      await apt(["download", target], { cwd: file, signal });
      const found = (await readdir(file)).find((each) => each.startsWith(`${target}_`));
      if (found === undefined)
        throw new Failure({ code: "part-missing", what: `apt gave no file of ${target}` });
      return join(file, found);
    },
    downloadSource: async (name) => {
      const directoryOfFiles = join(directory, "files");
      run.progress(`downloading the source of ${name}`);
      await apt(["source", "--download-only", "--tar-only", name], { cwd: directoryOfFiles, signal });
      const found = (await readdir(directoryOfFiles)).find((each) => each.startsWith(`${name}_`));
      if (found === undefined) {
        throw new Failure({ code: "part-missing", what: `apt gave no source of ${name}` });
      }
      return join(directoryOfFiles, found);
    },
  };
}

/** Whether a killed dpkg left something half done; apt then refuses everything. */
async function isHalfDone(): Promise<boolean> {
  const journal = await readdir("/var/lib/dpkg/updates").catch(() => []);
  if (journal.length > 0) return true;
  return (await runProgram("dpkg", ["--audit"])).stdout.trim() !== "";
}

/** dpkg in the middle of its work is left to finish, also when the run is interrupted or killed. */
async function unbroken(
  run: LabRun,
  work: (onSpawn: (pid: number) => void) => Promise<unknown>,
): Promise<void> {
  run.cleanup.signal.throwIfAborted();
  let trace: number | undefined;
  const done = work((pid) => {
    const identity = identifyProcess(pid);
    if (identity !== undefined) trace = run.journal.note({ kind: "process", identity, finish: true });
  });
  const release = run.cleanup.defer(
    "wait for dpkg",
    async () => {
      await done.catch(() => undefined);
      if (trace !== undefined) run.journal.strike(trace);
    },
    LIMIT_MS,
  );
  try {
    await done;
  } finally {
    await release();
  }
  run.cleanup.signal.throwIfAborted();
}

async function prepare(directory: string, sources: readonly SourceFile[]): Promise<string[]> {
  for (const name of ["sources", "preferences", "lists/partial", "archives/partial", "files"]) {
    await mkdir(join(directory, name), { recursive: true });
  }
  for (const { name, text } of sources) await writeFile(join(directory, "sources", name), text);
  // Without this pin nothing of backports is taken; with `-t` systemd would be renewed as well.
  await cp("/etc/apt/preferences.d", join(directory, "preferences"), { recursive: true }).catch(
    () => undefined,
  );
  const pinned = BACKPORTED_SOURCES.map((name) => `src:${name}`).join(" ");
  const pin = `Package: ${pinned}\nPin: release n=bookworm-backports\nPin-Priority: 990\n`;
  await writeFile(join(directory, "preferences/lab"), pin);
  // apt downloads as the user _apt.
  for (const name of ["lists/partial", "archives/partial", "files"]) {
    await runProgram("chown", ["_apt", join(directory, name)]);
  }
  const settings = {
    "Dir::Etc::SourceList": "/dev/null",
    "Dir::Etc::SourceParts": join(directory, "sources"),
    "Dir::Etc::PreferencesParts": join(directory, "preferences"),
    "Dir::State::Lists": join(directory, "lists"),
    "Dir::Cache::Archives": `${join(directory, "archives")}/`,
    "Dir::Cache::pkgcache": "",
    "Dir::Cache::srcpkgcache": "",
    "DPkg::Lock::Timeout": String(LOCK_LIMIT_S),
    "DPkg::Use-Pty": "0",
    "APT::Install-Recommends": "false",
    "APT::Update::Error-Mode": "any",
    "APT::Get::Assume-Yes": "true",
    "Acquire::Languages": "none",
    "Acquire::Retries": "3",
  };
  return [
    ...Object.entries(settings).flatMap(([key, value]) => ["-o", `${key}=${value}`]),
    ...["-o", "DPkg::Options::=--force-confdef", "-o", "DPkg::Options::=--force-confold"],
  ];
}

async function dependency(options: readonly string[], name: string): Promise<string> {
  const { stdout } = await runProgram("apt-cache", [...options, "depends", "--important", name]);
  const found = /Depends: (linux-image-\S+)/.exec(stdout)?.[1];
  if (found !== undefined) return found;
  throw new Failure({ code: "part-missing", what: `the package ${name} depends on no linux-image` });
}

/** Passes on what apt says of its progress, counts packages for a terminal, and keeps its errors. */
function listener({ progress, show }: LabRun, complaints: string[]): (line: string) => void {
  const counts = { "Get:": 0, Unpacking: 0, Setting: 0 };
  const words = { "Get:": "fetched", Unpacking: "unpacked", Setting: "set up" };
  let packages = 0;
  let last = "";
  return (line) => {
    if (line === last) return; // while it waits for a lock apt says so every second
    last = line;
    if (/^[EW]: /.test(line)) complaints.push(line);
    if (/^Need to get|Waiting for cache lock/.test(line)) progress(`apt: ${line}`);
    const plan = /^(\d+) upgraded, (\d+) newly installed/.exec(line);
    if (plan !== null) packages = Number(plan[1]) + Number(plan[2]);
    const begun = (["Get:", "Unpacking", "Setting"] as const).find((word) => line.startsWith(word));
    if (begun === undefined) return;
    counts[begun] += 1;
    show(`${words[begun]} ${counts[begun]}${packages === 0 ? "" : ` of ${packages}`}`);
  };
}
