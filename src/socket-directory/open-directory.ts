import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { Failure, systemCode } from "../failure/failure.ts";

const FLAGS = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;

/**
 * A directory held open. Its entries are reached through `/proc/self/fd`, which is Node's way to openat(2): a
 * pod with root may swap any name below its allocation for a link at any moment, and a path that is resolved
 * from the descriptor cannot be led out.
 */
export class OpenDirectory implements AsyncDisposable {
  readonly #handle: FileHandle;
  readonly path: string;

  constructor(handle: FileHandle, path: string) {
    this.#handle = handle;
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
    return `/proc/self/fd/${this.#handle.fd}/${name}`;
  }

  /** The directory itself, through its descriptor. */
  get self(): string {
    return `/proc/self/fd/${this.#handle.fd}`;
  }

  /** The open file, for fchown and fchmod. */
  get handle(): FileHandle {
    return this.#handle;
  }

  /** Opens a sub-directory; undefined when there is none. */
  async openEntry(name: string): Promise<OpenDirectory | undefined> {
    return tryOpen(this.entry(name), `${this.path}/${name}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#handle.close();
  }
}

/** Opens a directory that we own, such as the root. @throws the system's error when it is missing */
export async function openDirectory(path: string): Promise<OpenDirectory> {
  return new OpenDirectory(await open(path, FLAGS), path);
}

async function tryOpen(systemPath: string, path: string): Promise<OpenDirectory | undefined> {
  try {
    return new OpenDirectory(await open(systemPath, FLAGS), path);
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
