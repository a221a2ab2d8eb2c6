import { dirname } from "node:path";
import type { Program } from "./machine.ts";
import type { Simulation } from "./simulation.ts";

/** A file: what programs read, and what a power cut leaves at least. */
export class DiskFile {
  bytes: Buffer = Buffer.alloc(0);
  synced: Buffer = Buffer.alloc(0);

  sync(): void {
    this.synced = this.bytes;
  }

  write(bytes: Buffer, position: number): void {
    const end = position + bytes.length;
    const next = Buffer.alloc(Math.max(end, this.bytes.length));
    this.bytes.copy(next);
    bytes.copy(next, position);
    this.bytes = next;
  }

  truncate(size: number): void {
    const next = Buffer.alloc(size);
    this.bytes.copy(next);
    this.bytes = next;
  }
}

/** An error of the system. */
export function systemError(code: string, path: string): Error {
  return Object.assign(new Error(`${code}: simulated, '${path}'`), { code, path });
}

const byRoot = new Map<string, { readonly disk: SimulatedDisk; readonly program: Program }>();

/** The disk and the program that a path is of, and the path on that disk. */
export function placeOf(path: string) {
  const [, root = ""] = /^(\/simulated\/\d+)(\/|$)/.exec(path) ?? [];
  const place = byRoot.get(root);
  return place === undefined ? undefined : { ...place, path: path.slice(root.length) };
}

/**
 * A machine's disk. A program that is killed leaves what it wrote; a power cut leaves what was synced, and of the rest
 * whatever the seed decides: all, nothing, a part, or zeros in its place. The same holds for names in a directory.
 */
export class SimulatedDisk {
  /** Code of the error that every write gets. */
  failure: "ENOSPC" | "EROFS" | "EIO" | undefined;
  /** A disk that says that data are on it when they are not. */
  ignoresSync = false;
  names = new Map<string, DiskFile>();
  readonly directories = new Set<string>([""]);
  #syncedNames = new Map<string, DiskFile>();
  readonly #simulation: Simulation;

  constructor(simulation: Simulation) {
    this.#simulation = simulation;
  }

  /** Makes the disk reachable for a program, as the directory `root`. */
  attach(root: string, program: Program): void {
    byRoot.set(root, { disk: this, program });
  }

  detach(root: string): void {
    byRoot.delete(root);
  }

  /** A moment of this disk. */
  get delayMs(): number {
    return this.#simulation.between(0.02, this.#simulation.percent(2) ? 200 : 2);
  }

  makeDirectory(path: string): void {
    for (let at = path; at !== "/" && at !== ""; at = dirname(at)) this.directories.add(at);
  }

  file(path: string): DiskFile {
    const found = this.names.get(path);
    if (found === undefined) throw systemError("ENOENT", path);
    return found;
  }

  syncFile(file: DiskFile): void {
    if (!this.ignoresSync) file.sync();
  }

  syncDirectory(path: string): void {
    if (this.ignoresSync) return;
    const isHere = (name: string) => dirname(name) === path;
    for (const name of [...this.#syncedNames.keys()])
      if (isHere(name) && !this.names.has(name)) this.#syncedNames.delete(name);
    for (const [name, file] of this.names) if (isHere(name)) this.#syncedNames.set(name, file);
  }

  /** What a power cut now leaves at least of a file; undefined where it may lose the file itself. */
  durable(path: string): Buffer | undefined {
    return this.#syncedNames.get(path)?.synced;
  }

  losePower(): void {
    const all = new Set([...this.names.keys(), ...this.#syncedNames.keys()]);
    const left = new Map<string, DiskFile>();
    for (const name of all) {
      const file = (this.#simulation.percent(50) ? this.names : this.#syncedNames).get(name);
      if (file !== undefined) left.set(name, file);
    }
    for (const file of new Set(left.values())) {
      file.bytes = this.#afterPowerCut(file);
      file.sync();
    }
    this.names = left;
    this.#syncedNames = new Map(left);
    this.failure = undefined;
  }

  #afterPowerCut({ bytes, synced }: DiskFile): Buffer {
    if (bytes.equals(synced)) return synced;
    const { random } = this.#simulation;
    const kept = Math.min(synced.length, bytes.length);
    const part = kept + Math.floor(random() * (bytes.length - kept + 1));
    const zeros = Buffer.concat([bytes.subarray(0, part), Buffer.alloc(bytes.length - part)]);
    return [synced, bytes, bytes.subarray(0, part), zeros][Math.floor(random() * 4)] ?? synced;
  }
}
