import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { CniResult } from "./check-result.ts";
import type { Delegate } from "./network.ts";

/** What Multus and libcni keep on disk between ADD and DEL. */
export class Caches {
  readonly #directory: string;

  constructor(directory: string) {
    this.#directory = directory;
  }

  async saveDelegates(containerId: string, delegates: readonly Delegate[]): Promise<void> {
    await mkdir(this.#directory, { recursive: true });
    await writeFile(join(this.#directory, containerId), JSON.stringify(delegates));
  }

  /** Undefined where there is no file, as after a DEL that went well. */
  async readDelegates(containerId: string): Promise<readonly Delegate[] | undefined> {
    return readJson<readonly Delegate[]>(join(this.#directory, containerId));
  }

  async removeDelegates(containerId: string): Promise<void> {
    await rm(join(this.#directory, containerId), { force: true });
  }

  async saveResult(delegate: Delegate, containerId: string, result: CniResult): Promise<void> {
    await mkdir(join(this.#directory, "results"), { recursive: true });
    await writeFile(this.#resultFile(delegate, containerId), JSON.stringify({ kind: "cniCacheV1", result }));
  }

  async readResult(delegate: Delegate, containerId: string): Promise<CniResult | undefined> {
    return (await readJson<{ readonly result: CniResult }>(this.#resultFile(delegate, containerId)))?.result;
  }

  async removeResult(delegate: Delegate, containerId: string): Promise<void> {
    await rm(this.#resultFile(delegate, containerId), { force: true });
  }

  #resultFile({ name, ifName }: Delegate, containerId: string): string {
    return join(this.#directory, "results", `${name}-${containerId}-${ifName}`);
  }
}

async function readJson<Value>(path: string): Promise<Value | undefined> {
  try {
    return JSON.parse(await readFile(path, "utf8")) as Value;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}
