import { closeSync, constants, type Dirent, fstatSync, opendirSync, openSync, type Stats } from "node:fs";
import { systemCode } from "../../failure/failure.ts";

const FLAGS = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
/** O_PATH of Linux on x86-64 and arm64; Node does not name it. It opens a socket's inode without connecting. */
const O_PATH = 0o10000000;

/**
 * A directory held open, with calls that do not wait for a thread: on a tmpfs they take a microsecond or two, a
 * round trip through the thread pool takes ten times that. Entries are named through the descriptor, so that
 * nothing that a pod swaps leads out.
 *
 * A name is any bytes that a pod likes. Read as UTF-8, those that are none would come out as another name, under which
 * nothing is found: so names are latin1 strings, one character for each byte ({@link byteName}).
 */
export class HeldDirectory implements Disposable {
  readonly fd: number;

  private constructor(fd: number) {
    this.fd = fd;
  }

  /** Opens a directory, which may not be a link; undefined when there is none of that name. */
  static open(path: string | Buffer): HeldDirectory | undefined {
    const fd = tryOpen(path, FLAGS);
    return fd === undefined ? undefined : new HeldDirectory(fd);
  }

  /** The directory itself, through its descriptor. */
  get self(): string {
    return `/proc/self/fd/${this.fd}`;
  }

  /** An entry, for one system call that does not follow links. */
  entry(name: string): Buffer {
    return Buffer.from(`${this.self}/${name}`, "latin1");
  }

  openEntry(name: string): HeldDirectory | undefined {
    return HeldDirectory.open(this.entry(name));
  }

  /** Its entries, read `bufferSize` at a time. */
  *entries(bufferSize = 64): Generator<Dirent> {
    const listing = opendirSync(this.self, { bufferSize, encoding: "latin1" });
    try {
      for (let entry = listing.readSync(); entry !== null; entry = listing.readSync()) yield entry;
    } finally {
      listing.closeSync();
    }
  }

  status(): Stats {
    return fstatSync(this.fd);
  }

  [Symbol.dispose](): void {
    closeSync(this.fd);
  }
}

/** A name of ours as {@link HeldDirectory} has names: one character for each byte. */
export function byteName(name: string): string {
  return Buffer.from(name).toString("latin1");
}

/** Opens the inode of an entry, whatever it is, without following a link; undefined when it is gone. */
export function openInode(directory: HeldDirectory, name: string): number | undefined {
  return tryOpen(directory.entry(name), O_PATH | constants.O_NOFOLLOW);
}

function tryOpen(path: string | Buffer, flags: number): number | undefined {
  try {
    return openSync(path, flags);
  } catch (error) {
    const code = systemCode(error);
    // Gone, or something else was put in its place: either way there is nothing to hold.
    if (code === "ENOENT" || code === "ENOTDIR" || code === "ELOOP") return undefined;
    throw error;
  }
}
