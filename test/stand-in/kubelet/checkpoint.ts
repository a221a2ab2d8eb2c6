import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { WireAllocation } from "./plugin-client.ts";

/** What a container holds of one resource. */
export interface DeviceEntry {
  readonly podUid: string;
  readonly container: string;
  readonly resource: string;
  /** In the order of the Allocate call. */
  readonly ids: readonly string[];
  readonly numaNodes: Readonly<Record<string, readonly number[]>>;
  /** Kept, because Allocate is not called again after a restart. */
  readonly answer: WireAllocation;
}

/** kubelet's memory over restarts. */
interface Checkpoint {
  readonly entries: readonly DeviceEntry[];
  readonly registeredResources: readonly string[];
}

const FILE = "kubelet_internal_checkpoint";

/** Reads the checkpoint in the plugin directory; none is an empty one. */
export function readCheckpoint(directory: string): Checkpoint {
  const path = join(directory, FILE);
  if (!existsSync(path)) return { entries: [], registeredResources: [] };
  return JSON.parse(readFileSync(path, "utf8")) as Checkpoint;
}

/** Replaces the checkpoint as a whole. */
export function writeCheckpoint(directory: string, checkpoint: Checkpoint): void {
  const path = join(directory, FILE);
  writeFileSync(`${path}.new`, JSON.stringify(checkpoint));
  renameSync(`${path}.new`, path);
}
