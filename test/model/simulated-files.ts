import files from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import { dirname } from "node:path";
import type { Program } from "./machine.ts";
import { DiskFile, placeOf, type SimulatedDisk, systemError } from "./simulated-disk.ts";

type Promises = typeof files;
type Name = "appendFile" | "mkdir" | "open" | "readFile" | "readdir" | "rename" | "rm" | "stat";

interface Place {
  readonly disk: SimulatedDisk;
  readonly program: Program;
  /** On the disk. */
  readonly path: string;
}

const NAMES: readonly Name[] = ["appendFile", "mkdir", "open", "readFile", "readdir", "rename", "rm", "stat"];
const WRITES: readonly Name[] = ["appendFile", "mkdir", "rename", "rm"];

/**
 * Puts simulated disks in the place of the real one, for paths below /simulated only, in `node:fs/promises` itself: the
 * shipped code opens, writes and syncs its files as on a real disk. @returns a way back
 */
export function simulateFiles(): () => void {
  const real = Object.fromEntries(NAMES.map((name) => [name, files[name]])) as unknown as Promises;
  for (const name of NAMES) {
    const original = real[name] as (...args: unknown[]) => Promise<unknown>;
    const replaced = (...args: unknown[]) => {
      if (typeof args[0] !== "string" || !args[0].startsWith("/simulated/")) return original(...args);
      const place = placeOf(args[0]);
      // The program has ended: it waits for ever.
      if (place === undefined) return new Promise(() => undefined);
      return done(place, () => {
        if (WRITES.includes(name)) refuseWrite(place);
        return OPERATIONS[name](place, ...args.slice(1));
      });
    };
    Object.assign(files, { [name]: replaced });
  }
  syncBuiltinESMExports();
  return () => {
    Object.assign(files, real);
    syncBuiltinESMExports();
  };
}

function done<Value>({ disk, program }: Place, work: () => Value): Promise<Value> {
  return new Promise((resolve, reject) =>
    program.after(disk.delayMs, () => {
      try {
        resolve(work());
      } catch (error) {
        reject(error);
      }
    }),
  );
}

function refuseWrite({ disk, path }: Place): void {
  if (disk.failure !== undefined) throw systemError(disk.failure, path);
}

type Operation = (place: Place, ...args: readonly unknown[]) => unknown;

const OPERATIONS: Readonly<Record<Name, Operation>> = {
  appendFile({ disk, path }, text, options) {
    const file = disk.names.get(path) ?? new DiskFile();
    disk.names.set(path, file);
    file.write(Buffer.from(text as string), file.bytes.length);
    if ((options as { flush?: boolean } | undefined)?.flush) disk.syncFile(file);
  },
  mkdir({ disk, path }) {
    disk.makeDirectory(path);
  },
  open(place, flags = "r") {
    const { disk, path } = place;
    if (disk.directories.has(path)) return directoryHandle(place);
    if (flags === "wx" && disk.names.has(path)) throw systemError("EEXIST", path);
    if (flags !== "r") refuseWrite(place);
    if (flags !== "w" && flags !== "wx") return fileHandle(place, disk.file(path));
    const file = disk.names.get(path) ?? new DiskFile();
    file.truncate(0);
    disk.names.set(path, file);
    return fileHandle(place, file);
  },
  readFile({ disk, path }, options) {
    const { bytes } = disk.file(path);
    const encoding = typeof options === "string" ? options : (options as { encoding?: string })?.encoding;
    return encoding === undefined ? Buffer.from(bytes) : bytes.toString(encoding as BufferEncoding);
  },
  readdir({ disk, path }) {
    if (!disk.directories.has(path)) throw systemError("ENOENT", path);
    return [...disk.names.keys()]
      .filter((name) => dirname(name) === path)
      .map((name) => name.slice(path.length + 1));
  },
  rename({ disk, path }, to) {
    const file = disk.file(path);
    disk.names.delete(path);
    disk.names.set(placeOf(to as string)?.path ?? "", file);
  },
  rm({ disk, path }, options) {
    if (!disk.names.delete(path) && !(options as { force?: boolean } | undefined)?.force)
      throw systemError("ENOENT", path);
  },
  stat({ disk, path }) {
    if (disk.directories.has(path)) return statistics(0, true);
    return statistics(disk.file(path).bytes.length, false);
  },
};

function statistics(size: number, isDirectory: boolean) {
  return { size, isFile: () => !isDirectory, isDirectory: () => isDirectory };
}

function directoryHandle(place: Place) {
  return {
    sync: () => done(place, () => place.disk.syncDirectory(place.path)),
    close: () => done(place, () => undefined),
  };
}

/** What the shipped code uses of a FileHandle. */
function fileHandle(place: Place, file: DiskFile) {
  const write = <Value>(work: () => Value) =>
    done(place, () => {
      refuseWrite(place);
      return work();
    });
  const sync = () => write(() => place.disk.syncFile(file));
  return {
    ...{ sync, datasync: sync },
    stat: () => done(place, () => statistics(file.bytes.length, false)),
    truncate: (size: number) => write(() => file.truncate(size)),
    chmod: () => done(place, () => undefined),
    writeFile: (content: string | Uint8Array) => write(() => file.write(Buffer.from(content), 0)),
    write: (bytes: Buffer, offset: number, length: number, position: number) =>
      write(() => {
        file.write(bytes.subarray(offset, offset + length), position);
        return { bytesWritten: length };
      }),
    close: () => done(place, () => undefined),
  };
}
