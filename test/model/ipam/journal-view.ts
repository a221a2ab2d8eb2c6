import type { Entry } from "../../../src/ipam-agent/journal-entries.ts";
import type { DiskFile } from "../simulated-disk.ts";

/** What a journal's file says, read as it grows. */
export class JournalView {
  #file: DiskFile | undefined;
  #boot = 0;
  #size = 0;
  #values = new Map<string, Entry>();

  /** By key. */
  read(file: DiskFile | undefined, boot: number): ReadonlyMap<string, Entry> {
    const size = (file?.bytes.lastIndexOf("\n") ?? -1) + 1;
    if (file !== this.#file || boot !== this.#boot || size < this.#size) {
      this.#values = new Map();
      this.#size = 0;
    }
    this.#file = file;
    this.#boot = boot;
    if (file === undefined || size === this.#size) return this.#values;
    for (const line of file.bytes.toString("utf8", this.#size, size).split("\n")) this.#note(line);
    this.#size = size;
    return this.#values;
  }

  #note(line: string): void {
    const brace = line.indexOf("{");
    if (brace !== 9) return;
    try {
      const { key, value } = JSON.parse(line.slice(brace)) as {
        readonly key: string;
        readonly value?: Entry;
      };
      if (value === undefined) this.#values.delete(key);
      else this.#values.set(key, value);
    } catch {
      // A damaged line.
    }
  }
}
