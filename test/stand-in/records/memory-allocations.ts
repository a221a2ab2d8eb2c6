import { newAllocationId } from "../../../src/names/allocation-id.ts";
import { parseDeviceId } from "../../../src/names/device-id.ts";
import type { AllocationRecord } from "../../../src/records/allocation-record.ts";
import type { RecordStore } from "../../../src/records/record-store.ts";

/** The optional part of a record. */
export type NotedSwitch = Pick<AllocationRecord, "dataplane" | "switchSockets" | "socketServer">;

type Source = Pick<RecordStore<AllocationRecord>, "list" | "get" | "subscribe">;
type Listener = Parameters<Source["subscribe"]>[0];

/** Allocation records in memory, for tests of what only follows them. */
export class MemoryAllocations implements Source {
  readonly #records = new Map<string, AllocationRecord>();
  readonly #listeners = new Set<Listener>();
  #sequence = 0;

  list(): readonly AllocationRecord[] {
    return [...this.#records.values()];
  }

  get(id: string): AllocationRecord | undefined {
    return this.#records.get(id);
  }

  subscribe(listener: Listener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Adds an allocation of these devices, which are of one pool. */
  put(options: {
    readonly devices: readonly string[];
    readonly resource?: string;
    /** What the record says about the pool's switch. */
    readonly noted?: NotedSwitch;
  }): AllocationRecord {
    const record: AllocationRecord = {
      id: newAllocationId(),
      pool: parseDeviceId(options.devices[0] ?? "")?.pool ?? "",
      holder: {
        kind: "device-plugin",
        resource: options.resource ?? "vhostuser/sockets",
        devices: [...options.devices],
      },
      ownership: { owner: 107, group: 107, mode: 0o2770 },
      createdAt: 0,
      sequence: ++this.#sequence,
      ...options.noted,
    };
    this.replace(record);
    return record;
  }

  replace(record: AllocationRecord): void {
    const before = this.#records.get(record.id);
    this.#records.set(record.id, record);
    for (const listener of this.#listeners) listener(before, record);
  }

  remove(record: AllocationRecord): void {
    const before = this.#records.get(record.id);
    this.#records.delete(record.id);
    for (const listener of this.#listeners) listener(before, undefined);
  }
}
