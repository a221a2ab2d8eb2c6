import type { AllocationAnswer } from "./allocation-answer.ts";
import type { DeviceSource, PluginDevice } from "./device-source.ts";

/** The one device of the dataplane's resource. */
const DATAPLANE_DEVICE = "dataplane-00000";

/** One device, healthy whatever the switch does: it is the switch's own pod that asks for it. */
export function dataplaneDevices(): DeviceSource {
  const devices: readonly PluginDevice[] = [{ id: DATAPLANE_DEVICE, healthy: true, numaNodes: [] }];
  return { current: () => devices, subscribe: () => () => undefined };
}

/**
 * Answers Allocate for the switch's own pod: the whole root, at the path where the daemon sees it, so that the
 * socket paths in the switch's configuration are right inside its pod.
 */
export function allocateDataplane(root: string, switchRoot: string): AllocationAnswer {
  return {
    envs: { VHOSTUSER_ROOT: switchRoot },
    mounts: [{ containerPath: switchRoot, hostPath: root, readOnly: false }],
    annotations: {},
  };
}
