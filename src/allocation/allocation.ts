// What an allocation consists of besides its record: directories, and the device-info file of each device.
import {
  type AllocationRecord,
  deviceNamesOf,
  pluginDevicesOf,
  resourceOf,
} from "../records/allocation-record.ts";
import type { RecordStore } from "../records/record-store.ts";
import { newestAllocationOf } from "../records/records.ts";
import {
  devicePluginFile,
  removeDeviceInfo,
  type VhostUserDeviceInfo,
  vhostUserDeviceInfo,
  writeDeviceInfo,
} from "./device-info.ts";
import { podDirectory, socketPath } from "./layout.ts";
import { removeAllocationDirectory } from "./set-aside.ts";
import { ensureSocketDirectories } from "./socket-directories.ts";

/** Where an allocation's directories and files are. */
export interface AllocationPlaces {
  /** Host directory of all allocations. */
  readonly root: string;
  /** Directory in pods below which their allocation appears. */
  readonly podRoot: string;
  readonly deviceInfoDirectory: string;
}

/** Makes an allocation's directories, or repairs their owner and mode; what a pod put into them stays. */
export async function ensureAllocationDirectories(
  record: AllocationRecord,
  places: AllocationPlaces,
): Promise<void> {
  const { id: allocationId, ownership } = record;
  const names = deviceNamesOf(record);
  await ensureSocketDirectories({ root: places.root, allocationId, names, ownership });
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
  allocation: AllocationRecord,
  device: string,
  { podRoot, deviceInfoDirectory }: AllocationPlaces,
): { readonly file: string; readonly info: VhostUserDeviceInfo } {
  const path = socketPath(podDirectory(podRoot, allocation.pool), device, `device ${device}`);
  return {
    file: devicePluginFile(deviceInfoDirectory, resourceOf(allocation), device),
    info: vhostUserDeviceInfo(path, allocation.socketServer),
  };
}

/**
 * Removes an allocation that no pod holds any more: directory, device-info, then the record, so that a crash in
 * between repeats it. Device-info that a newer allocation of the same device wrote stays.
 */
export async function removeAllocation(
  record: AllocationRecord,
  allocations: RecordStore<AllocationRecord>,
  places: AllocationPlaces,
): Promise<void> {
  await removeAllocationDirectory(places.root, record.id);
  for (const device of pluginDevicesOf(record)) {
    if (newestAllocationOf(device, allocations.list())?.id !== record.id) continue;
    removeDeviceInfo(devicePluginFile(places.deviceInfoDirectory, resourceOf(record), device));
  }
  await allocations.remove(record.id);
}
