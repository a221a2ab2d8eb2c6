import { spawn } from "node:child_process";
import { constants } from "node:fs";
import { open } from "node:fs/promises";
import { Failure, systemCode } from "../../failure/failure.ts";
import { killAfter } from "../../sync/deadlines.ts";

/**
 * Each executable by its name, what a network's `type` or `ipam.type` says: the name of a variable that every release of it
 * reads, and no other program.
 */
const MARKS = {
  "kube-vhostuser": Buffer.from("KUBE_VHOSTUSER_CNI_SOCKET"),
  "kube-vhostuser-ipam": Buffer.from("KUBE_VHOSTUSER_IPAM_SOCKET"),
} as const;

/** The name of an executable that is installed. */
export type Executable = keyof typeof MARKS;
/** Ours has less than a tenth of it; nothing bigger is read. */
const MOST_BYTES = 16 * 1024 * 1024;
/** `e_machine` of an ELF header (elf(5)), by Node's name of the processor. */
const MACHINES: Readonly<Record<string, number>> = { x64: 62, arm64: 183 };

/** A file in the place of the executable. */
export interface FoundFile {
  readonly content: Buffer;
  readonly uid: number;
  readonly mode: number;
}

/**
 * Reads a regular file without following a link in its place.
 * @returns `other` for a link, a directory, a file too big to be ours and anything else; undefined where nothing is
 */
export async function readPlainFile(path: string): Promise<FoundFile | "other" | undefined> {
  let file: Awaited<ReturnType<typeof open>>;
  try {
    // Not blocking: a pipe in its place would have no writer.
    file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (error) {
    if (systemCode(error) === "ENOENT") return undefined;
    // ELOOP: a link; ENXIO: a socket.
    if (systemCode(error) === "ELOOP" || systemCode(error) === "ENXIO") return "other";
    throw error;
  }
  try {
    const status = await file.stat();
    if (!status.isFile() || status.size > MOST_BYTES) return "other";
    return { content: await file.readFile(), uid: status.uid, mode: status.mode & 0o7777 };
  } finally {
    await file.close();
  }
}

/** Whether a file is this CNI executable, of any release of ours and for any processor. */
export function isOwnExecutable(content: Buffer, name: Executable): boolean {
  return isElf(content) && content.includes(MARKS[name]);
}

/**
 * The CNI executable that is to be installed.
 * @throws Failure part-missing where it is not there, is something else, or is for another processor
 */
export async function readOwnExecutable(
  path: string,
  name: Executable,
  processor: string = process.arch,
): Promise<Buffer> {
  const found = await readPlainFile(path);
  const fix = "use an image of kube-vhostuser for this node's processor as it was published";
  if (found === undefined || found === "other" || !isOwnExecutable(found.content, name)) {
    const what = found === undefined ? "the CNI executable is not there" : "it is not the CNI executable";
    throw new Failure({ code: "part-missing", what, where: path, fix });
  }
  const machine = found.content.readUInt16LE(18);
  if (machine !== MACHINES[processor]) {
    const known = Object.entries(MACHINES).find(([, number]) => number === machine)?.[0];
    const what = `the CNI executable is for ${known ?? `ELF machine ${machine}`}, this processor is ${processor}`;
    throw new Failure({ code: "part-missing", what, where: path, fix });
  }
  return found.content;
}

function isElf(content: Buffer): boolean {
  return content.length > 64 && content.readUInt32BE(0) === 0x7f454c46;
}

/** It answers in a millisecond. */
const LIMIT_MS = 10_000;

/**
 * Runs a CNI executable where it is to be used, with the one verb that it answers without the daemon: a mount with
 * noexec, or a processor that cannot run it, shows here and not in the first pod.
 * @throws Failure cni-directory-unusable with the reason
 */
export async function tryExecutable(path: string): Promise<void> {
  const child = spawn(path, [], {
    stdio: ["ignore", "pipe", "ignore"],
    env: { CNI_COMMAND: "VERSION" },
  });
  killAfter(child, LIMIT_MS);
  let answer = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    answer = (answer + text).slice(0, 4096);
  });
  const end = await new Promise<number | string>((resolve, reject) => {
    child.once("error", (error) => {
      // Another installer has removed it as a leftover: its own is in place then, or is being put there.
      if (systemCode(error) === "ENOENT") return reject(error);
      return resolve(systemCode(error) ?? error.message);
    });
    child.once("close", (code, signal) => resolve(code ?? signal ?? "nothing"));
  });
  if (end === 0 && answer.includes('"supportedVersions"')) return;
  throw new Failure({
    code: "cni-directory-unusable",
    what: `the CNI executable cannot be run there: VERSION ended with ${end}`,
    where: path,
    fix:
      end === "EACCES"
        ? "mount the directory without noexec, or use the directory where the container runtime has its CNI plugins"
        : "check the node's processor and its security modules' log",
  });
}
