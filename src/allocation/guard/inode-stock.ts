import { statfsSync } from "node:fs";

/** All inodes of a file system, and those that are free. */
export interface Inodes {
  readonly files: number;
  readonly ffree: number;
}

/** Share of free inodes below which they are scarce. */
const SCARCE = 0.5;
/** Inodes taken between two questions that are worth a look. */
const GROWTH = 100;

/** The inodes that all allocations share. */
export class InodeStock {
  readonly #read: () => Inodes;
  #used = 0;

  constructor(root: string, read: () => Inodes = () => statfsSync(root)) {
    this.#read = read;
  }

  /** @throws what statfs(2) gives */
  isScarce(): boolean {
    const { files, ffree } = this.#read();
    return ffree < files * SCARCE;
  }

  /** Inodes in use; undefined when nobody can tell. */
  used(): number | undefined {
    try {
      const { files, ffree } = this.#read();
      return files - ffree;
    } catch {
      return undefined;
    }
  }

  /** Whether many were taken since the last question; also when nobody can tell. */
  hasGrown(): boolean {
    const used = this.used();
    if (used === undefined) return true;
    const before = this.#used;
    this.#used = used;
    return used > before + GROWTH;
  }
}
