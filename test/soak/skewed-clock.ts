import { writeFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { LabRun } from "../machine/lab-run.ts";
import { runProgram } from "../machine/run-program.ts";

const SOURCE = fileURLToPath(new URL("./clock-skew.c", import.meta.url));
const LIBRARY = "clock-skew.so";

/** Compiles the library that skews clocks into the run's directory. */
export async function buildClockSkew(run: LabRun): Promise<void> {
  const output = join(run.directory, LIBRARY);
  await runProgram("gcc", ["-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o", output, SOURCE]);
}

/** The wall clock of one process, which can be set while it runs. */
export class SkewedClock {
  /** What the process is started through. */
  readonly prefix: readonly string[];
  readonly #file: string;

  private constructor(run: LabRun, file: string) {
    this.#file = file;
    this.prefix = ["env", `LD_PRELOAD=${join(run.directory, LIBRARY)}`, `SOAK_CLOCK_FILE=${file}`];
  }

  /** A clock that is right. */
  static async create(run: LabRun, name: string): Promise<SkewedClock> {
    const file = join(run.directory, `clock-${name}`);
    await writeFile(file, Buffer.alloc(8));
    return new SkewedClock(run, file);
  }

  /** From now on it is off by so many whole seconds. */
  skew(seconds: number): void {
    const bytes = Buffer.alloc(8);
    bytes.writeBigInt64LE(BigInt(seconds) * 1000n);
    // Not replaced: the process has mapped this very file. A file of eight bytes is written in one piece.
    writeFileSync(this.#file, bytes, { flag: "r+" });
  }
}
