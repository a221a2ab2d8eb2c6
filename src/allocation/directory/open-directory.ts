import {
  closeSync,
  constants,
  fchmodSync,
  fchownSync,
  fstatSync,
  mkdirSync,
  openSync,
  type Stats,
} from "node:fs";
import { Failure, systemCode } from "../../failure/failure.ts";

const FLAGS = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;

/**
 * A directory held open. Its entries are reached through `/proc/self/fd`, which is Node's way to openat(2): a
 * pod with root may swap any name below its allocation for a link at any moment, and a path that is resolved
 * from the descriptor cannot be led out.
 *
 * Its calls do not wait for a thread: the root is a tmpfs, so no disk can hold them up, and each takes a microsecond or
 * two where a round trip through Node's thread pool takes fifty. Calls whose work a pod decides on (listing, removing)
 * are not among them.
 */
export class OpenDirectory implements Disposable {
  readonly fd: number;
  readonly path: string;

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

  /**
   * The same for a name that a pod chose and opendir(3) gave as latin1, one character for each byte: read as UTF-8, a
   * name that is none would become another one, under which nothing is found.
   */
  byteEntry(name: string): Buffer {
    return Buffer.from(this.entry(name), "latin1");
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

  /** Opens a sub-directory; undefined when there is none. */
  openEntry(name: string): OpenDirectory | undefined {
    return tryOpen(this.entry(name), `${this.path}/${name}`);
  }

  /** The same for a name as {@link OpenDirectory.byteEntry} takes it. */
  openByteEntry(name: string): OpenDirectory | undefined {
    return tryOpen(this.byteEntry(name), `${this.path}/${name}`);
  }

  [Symbol.dispose](): void {
    closeSync(this.fd);
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
