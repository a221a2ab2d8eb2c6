import { type PortRecord, portRecordName } from "./port-record.ts";
import type { RecordListener } from "./record-store.ts";

/** The port records, as this index follows them. */
export interface PortSource {
  list(): readonly PortRecord[];
  subscribe(listener: RecordListener<PortRecord>): () => void;
}

/** The ports of each allocation, without a walk over those of the whole node at every question. */
export class PortsByAllocation {
  /** By allocation, by record. */
  readonly #ports = new Map<string, Map<string, PortRecord>>();

  /** Follows the records for as long as they are. */
  constructor(records: PortSource) {
    for (const port of records.list()) this.#add(port);
    records.subscribe((before, after) => {
      if (before !== undefined) this.#remove(before);
      if (after !== undefined) this.#add(after);
    });
  }

  of(allocationId: string): readonly PortRecord[] {
    return [...(this.#ports.get(allocationId)?.values() ?? [])];
  }

  #add(port: PortRecord): void {
    const ports = this.#ports.get(port.allocationId) ?? new Map<string, PortRecord>();
    this.#ports.set(port.allocationId, ports.set(nameOf(port), port));
  }

  #remove(port: PortRecord): void {
    const ports = this.#ports.get(port.allocationId);
    ports?.delete(nameOf(port));
    if (ports?.size === 0) this.#ports.delete(port.allocationId);
  }
}

function nameOf({ containerId, interfaceName }: PortRecord): string {
  return portRecordName(containerId, interfaceName);
}
