import {
  close,
  closeSync,
  constants,
  type Dir,
  type Dirent,
  fchmodSync,
  fchownSync,
  fstatSync,
  mkdirSync,
  opendirSync,
  openSync,
  type Stats,
} from "node:fs";
import { opendir } from "node:fs/promises";
import { promisify } from "node:util";
import { Failure, systemCode } from "../failure/failure.ts";

const FLAGS = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
/** Entries read at once, so that a listing takes the same memory whatever a pod has made. */
const LISTED_AT_ONCE = 512;
/** O_PATH of Linux on x86-64 and arm64; Node does not name it. It opens a socket's inode without connecting. */
const O_PATH = 0o10000000;

/**
 * A directory held open. Its entries are reached through `/proc/self/fd`, Node's way to openat(2): root in a pod may swap
 * any name below its allocation for a link, which cannot lead a path out that is resolved from the descriptor.
 *
 * Most calls do not wait for a thread: on the root's tmpfs each takes a microsecond or two, a round trip through Node's
 * thread pool fifty. Calls whose work a pod decides on (listing, removing) do.
 */
export class OpenDirectory implements Disposable {
  readonly fd: number;
  readonly path: string;
  #isClosed = false;

  constructor(fd: number, path: string) {
    this.fd = fd;
    this.path = path;
  }

  /** The path of an entry, for one system call that does not follow links. @param name a text, or {@link nameBytes} */
  entry(name: string | Buffer): Buffer {
    const bytes = Buffer.from(name);
    if (["", ".", ".."].includes(bytes.toString("latin1")) || bytes.includes("/") || bytes.includes(0)) {
      throw new Failure({
        code: "directory-unsafe",
        what: `${JSON.stringify(bytes.toString())} cannot be a name in a directory`,
        where: this.path,
      });
    }
    return Buffer.concat([Buffer.from(`${this.self}/`), bytes]);
  }

  /** Its entries, with names in latin1: a pod may use any bytes, and those that are not UTF-8 would be another name. */
  list(): Promise<Dir> {
    return opendir(this.self, { encoding: "latin1", bufferSize: LISTED_AT_ONCE });
  }

  /** The same at once, for a listing that no pod makes long, or that ends after `most` entries. */
  listSome(most = Number.POSITIVE_INFINITY): readonly Dirent[] {
    const listing = opendirSync(this.self, { encoding: "latin1", bufferSize: LISTED_AT_ONCE });
    const entries: Dirent[] = [];
    try {
      while (entries.length < most) {
        const entry = listing.readSync();
        if (entry === null) break;
        entries.push(entry);
      }
      return entries;
    } finally {
      listing.closeSync();
    }
  }

  /** The directory itself, through its descriptor. */
  get self(): string {
    return `/proc/self/fd/${this.fd}`;
  }

  status(): Stats {
    return fstatSync(this.fd);
  }

  chmod(mode: number): void {
    fchmodSync(this.fd, mode);
  }

  chown(owner: number, group: number): void {
    fchownSync(this.fd, owner, group);
  }

  /** Makes a sub-directory. @throws the system's error, EEXIST where there is something of that name */
  makeEntry(name: string, mode: number): void {
    mkdirSync(this.entry(name), { mode });
  }

  /** Opens a sub-directory; undefined when there is none. @throws Failure directory-unsafe for anything else */
  openEntry(name: string | Buffer): OpenDirectory | undefined {
    const path = `${this.path}/${name}`;
    try {
      return new OpenDirectory(openSync(this.entry(name), FLAGS), path);
    } catch (error) {
      const code = systemCode(error);
      if (code === "ENOENT") return undefined;
      // O_NOFOLLOW on a link is ELOOP (ENOTDIR with O_DIRECTORY), on a file ENOTDIR.
      if (code !== "ELOOP" && code !== "ENOTDIR") throw error;
      throw new Failure({
        code: "directory-unsafe",
        what: `${path} is not a directory but something that was put in its place`,
        cause: error,
      });
    }
  }

  /** {@link closeInThread} */
  async closeLater(): Promise<void> {
    this.#isClosed = true;
    await closeInThread(this.fd);
  }

  [Symbol.dispose](): void {
    if (!this.#isClosed) closeSync(this.fd);
  }
}

/**
 * Closes in a thread what a pod may have removed: with the last descriptor the kernel frees the inode's attributes, which
 * takes seconds where a pod has set millions of them.
 */
export const closeInThread: (fd: number) => Promise<void> = promisify(close);

/** Opens whatever is there without following a link or connecting to a socket; undefined when there is nothing. */
export function openInode(path: Buffer): number | undefined {
  try {
    return openSync(path, O_PATH | constants.O_NOFOLLOW);
  } catch (error) {
    if (systemCode(error) === "ENOENT") return undefined;
    throw error;
  }
}

/** Opens a directory that we own, such as the root. @throws the system's error when it is missing */
export function openDirectory(path: string): OpenDirectory {
  return new OpenDirectory(openSync(path, FLAGS), path);
}

/** The bytes of a name that {@link OpenDirectory.list} gave. */
export function nameBytes(latin1: string): Buffer {
  return Buffer.from(latin1, "latin1");
}
