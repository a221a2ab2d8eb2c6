import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { systemCode } from "../../src/failure/failure.ts";
import type { LabRun } from "../machine/lab-run.ts";
import { runProgram } from "../machine/run-program.ts";
import { waitUntil } from "../machine/wait-until.ts";

const STORES = ["allocations", "ports"];
const CHUNK = Buffer.alloc(64 * 1024);

/** The disk of a daemon's records, small enough to be filled. */
export class RecordsDisk {
  readonly #stores: readonly string[];
  readonly #filler: string;

  private constructor(disk: string, recordsDirectory: string) {
    this.#stores = STORES.map((name) => join(recordsDirectory, name));
    this.#filler = join(disk, "filler");
  }

  /**
   * Mounts it where a daemon that has not started yet will have its records. The daemon's lock beside them is not on
   * it: a file that is open for writing keeps a mount from becoming read-only.
   */
  static async mount(run: LabRun, nodeDirectory: string): Promise<RecordsDisk> {
    const disk = join(nodeDirectory, "disk");
    const records = join(nodeDirectory, "records");
    await mount(run, disk, ["-t", "tmpfs", "-o", "size=2m,mode=700", "records"]);
    for (const name of STORES) {
      await mkdir(join(disk, name), { mode: 0o700 });
      await mount(run, join(records, name), ["--bind", join(disk, name)]);
    }
    return new RecordsDisk(disk, records);
  }

  /** Takes the last byte. */
  async fill(): Promise<void> {
    try {
      for (;;) await writeFile(this.#filler, CHUNK, { flag: "a" });
    } catch (error) {
      if (systemCode(error) !== "ENOSPC") throw error;
    }
  }

  async empty(): Promise<void> {
    await rm(this.#filler, { force: true });
  }

  async makeReadOnly(): Promise<void> {
    for (const store of this.#stores) await remount(store, "ro");
  }

  async makeWritable(): Promise<void> {
    for (const store of this.#stores) await remount(store, "rw");
  }
}

/** Also while the daemon is just writing a file, which the kernel calls busy. */
async function remount(path: string, mode: "ro" | "rw"): Promise<void> {
  let last: unknown;
  const tried = () =>
    runProgram("mount", ["-o", `remount,bind,${mode}`, path]).then(
      () => true,
      (error: unknown) => {
        last = error;
        return false;
      },
    );
  await waitUntil(tried, { what: `${path} is ${mode}`, limitMs: 30_000, detail: () => String(last) });
}

async function mount(run: LabRun, path: string, args: readonly string[]): Promise<void> {
  await mkdir(path, { recursive: true, mode: 0o700 });
  const trace = run.journal.note({ kind: "mount", path });
  run.cleanup.defer(`unmount ${path}`, async () => {
    await runProgram("umount", ["-l", path]);
    run.journal.strike(trace);
  });
  await runProgram("mount", [...args, path]);
}
