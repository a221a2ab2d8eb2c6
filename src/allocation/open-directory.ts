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
const closeInThread = promisify(close);

/**
 * A directory held open. Its entries are reached through `/proc/self/fd`, which is Node's way to openat(2): a
 * pod with root may swap any name below its allocation for a link at any moment, and a path that is resolved
 * from the descriptor cannot be led out.
 *
 * Most calls do not wait for a thread: the root is a tmpfs, where each takes a microsecond or two and a round trip
 * through Node's thread pool fifty. Calls whose work a pod decides on (listing, removing) do.
 */
export class OpenDirectory implements Disposable {
  readonly fd: number;
  readonly path: string;
  #isClosed = false;

  constructor(fd: number, path: string) {
    this.fd = fd;
    this.path = path;
  }

  /** The path of an entry of this directory, for one system call that does not follow links. */
  entry(name: string): string {
    if (name === "" || name === "." || name === ".." || name.includes("/") || name.includes("\0")) {
      throw new Failure({
        code: "directory-unsafe",
        what: `${JSON.stringify(name)} cannot be a name in a directory`,
        where: this.path,
      });
    }
    return `${this.self}/${name}`;
  }

  /** The same for a name that {@link OpenDirectory.list} gave. */
  byteEntry(name: string): Buffer {
    return Buffer.from(this.entry(name), "latin1");
  }

  /**
   * Its entries, with names in latin1, one character for each byte: a pod may use any bytes, and those that are not
   * UTF-8 would come out as another name.
   */
  list(): Promise<Dir> {
    return opendir(this.self, { encoding: "latin1", bufferSize: LISTED_AT_ONCE });
  }

  /** The same at once, for a listing that no pod makes long, or that ends after `most` entries. */
  listSome(most = Number.POSITIVE_INFINITY): readonly Dirent[] {
    const listing = opendirSync(this.self, { encoding: "latin1", bufferSize: LISTED_AT_ONCE });
    try {
      const entries: Dirent[] = [];
      for (
        let entry = listing.readSync();
        entry !== null && entries.length < most;
        entry = listing.readSync()
      ) {
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
  openEntry(name: string): OpenDirectory | undefined {
    return tryOpen(this.entry(name), `${this.path}/${name}`);
  }

  /** The same for a name that {@link OpenDirectory.list} gave. */
  openByteEntry(name: string): OpenDirectory | undefined {
    return tryOpen(this.byteEntry(name), `${this.path}/${name}`);
  }

  /**
   * Closes it in a thread: with the last descriptor of a removed directory the kernel frees the directory's attributes,
   * which takes seconds where a pod has set millions of them.
   */
  async closeLater(): Promise<void> {
    this.#isClosed = true;
    await closeInThread(this.fd);
  }

  [Symbol.dispose](): void {
    if (!this.#isClosed) closeSync(this.fd);
  }
}

/** Opens a directory that we own, such as the root. @throws the system's error when it is missing */
export function openDirectory(path: string): OpenDirectory {
  return new OpenDirectory(openSync(path, FLAGS), path);
}

function tryOpen(systemPath: string | Buffer, path: string): OpenDirectory | undefined {
  try {
    return new OpenDirectory(openSync(systemPath, FLAGS), path);
  } catch (error) {
    const code = systemCode(error);
    if (code === "ENOENT") return undefined;
    // O_NOFOLLOW on a link is ELOOP (ENOTDIR with O_DIRECTORY), on a file ENOTDIR.
    if (code === "ELOOP" || code === "ENOTDIR") {
      throw new Failure({
        code: "directory-unsafe",
        what: `${path} is not a directory but something that was put in its place`,
        cause: error,
      });
    }
    throw error;
  }
}
