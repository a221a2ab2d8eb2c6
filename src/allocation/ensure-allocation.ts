import type { AllocationRecord } from "../records/allocation-record.ts";
import { type VhostUserDeviceInfo, vhostUserDeviceInfo } from "./device-info/device-info.ts";
import { devicePluginFile, writeDeviceInfo } from "./device-info/device-info-file.ts";
import { ensureSocketDirectories } from "./directory/ensure.ts";
import { podDirectory, socketPath } from "./directory/layout.ts";

/** Where an allocation's directories and files are. */
export interface AllocationPlaces {
  /** Host directory of all allocations. */
  readonly root: string;
  /** Directory in pods below which their allocation appears. */
  readonly podRoot: string;
  readonly deviceInfoDirectory: string;
}

/**
 * Makes an allocation's directories, or mends their owner and mode; what a pod put into them stays.
 * @param signal ends the wait for room
 */
export async function ensureAllocationDirectories(
  record: AllocationRecord,
  places: AllocationPlaces,
  signal?: AbortSignal,
): Promise<void> {
  const { id: allocationId, devices: names, ownership } = record;
  await ensureSocketDirectories({ root: places.root, allocationId, names, ownership }, { signal });
}

/** Writes the device-info file of each of `devices`, which are of this allocation. */
export function ensureDeviceInfo(
  record: AllocationRecord,
  devices: readonly string[],
  places: AllocationPlaces,
): void {
  for (const device of devices) {
    const { file, info } = allocationDeviceInfo(record, device, places);
    writeDeviceInfo(file, info);
  }
}

/** The device-info file of a device of this allocation, and what is to be in it. */
export function allocationDeviceInfo(
  { pool, resource, socketServer }: AllocationRecord,
  device: string,
  { podRoot, deviceInfoDirectory }: AllocationPlaces,
): { readonly file: string; readonly info: VhostUserDeviceInfo } {
  const path = socketPath(podDirectory(podRoot, pool), device, `device ${device}`);
  return {
    file: devicePluginFile(deviceInfoDirectory, resource, device),
    info: vhostUserDeviceInfo(path, socketServer),
  };
}
