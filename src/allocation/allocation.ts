// What an allocation consists of besides its record: directories, and the device-info file of each device.
import {
  type AllocationRecord,
  deviceNamesOf,
  pluginDevicesOf,
  resourceOf,
} from "../records/allocation-record.ts";
import { claimNameInPod } from "../records/claim-holder.ts";
import type { PortRecord } from "../records/port-record.ts";
import type { RecordStore } from "../records/record-store.ts";
import { newestAllocationOf } from "../records/records.ts";
import {
  devicePluginFile,
  removeDeviceInfo,
  type VhostUserDeviceInfo,
  vhostUserDeviceInfo,
  writeDeviceInfo,
} from "./device-info.ts";
import { claimDirectory, podDirectory, type SocketDirectories, socketPath } from "./layout.ts";
import { removeAllocationDirectory } from "./set-aside.ts";

/** Where an allocation's directories and files are. */
export interface AllocationPlaces {
  /** Host directory of all allocations. */
  readonly root: string;
  /** Directory in pods below which their allocation appears. */
  readonly podRoot: string;
  readonly deviceInfoDirectory: string;
}

/** What an allocation's directory must hold: a directory for each device, and each of these interfaces. */
export function directoriesOf(
  record: AllocationRecord,
  { root }: AllocationPlaces,
  interfaces: readonly PortRecord[] = [],
): SocketDirectories {
  const names = [...deviceNamesOf(record), ...interfaces.map(({ interfaceName }) => interfaceName)];
  return { root, allocationId: record.id, names, ownership: record.ownership };
}

/** The directory of an allocation's interfaces as its pod sees it. */
export function directoryInPod({ pool, holder }: AllocationRecord, podRoot: string): string {
  return holder.kind === "claim"
    ? claimDirectory(podRoot, claimNameInPod(holder))
    : podDirectory(podRoot, pool);
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
