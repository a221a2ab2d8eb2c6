// The resource that gives the switch's own pod the whole root.
import type { AllocationAnswer } from "./allocate.ts";
import type { DeviceSource, PluginDevice } from "./pool-devices.ts";

/** The one device of the dataplane's resource, healthy whatever the switch does: its own pod asks for it. */
const DEVICE: PluginDevice = { id: "dataplane-00000", healthy: true, numaNodes: [] };

/** The dataplane's resource has one device. */
export function dataplaneDevices(): DeviceSource {
  const devices = [DEVICE];
  return {
    current: () => devices,
    subscribe: () => () => undefined,
    lastUse: (id) => (id === DEVICE.id ? 0 : undefined),
  };
}

/**
 * Answers Allocate for the switch's own pod: the whole root, at the path where the daemon sees it, so that the
 * socket paths in the switch's configuration are right inside its pod.
 */
export function allocateDataplane(root: string, switchRoot: string): AllocationAnswer {
  return {
    envs: { VHOSTUSER_ROOT: switchRoot },
    mounts: [{ container_path: switchRoot, host_path: root, read_only: false }],
  };
}
