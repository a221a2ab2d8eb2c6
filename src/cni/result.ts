import type { PortRecord } from "../records/port-record.ts";
import { isAtLeast } from "./cni-version.ts";
import type { NetworkConfig } from "./network-config.ts";

/**
 * ADD's result (CNI spec, section 5). Exactly one interface of ours: Multus publishes device-info for none at
 * all and, for several, the same one each; and KubeVirt reads what Multus publishes.
 */
export function addResult(config: NetworkConfig, record: PortRecord): object {
  const ours = {
    name: record.interfaceName,
    mac: record.mac,
    sandbox: record.netns,
    // Keys that the result has since 1.1.0 only.
    ...(isAtLeast(config.cniVersion, "1.1.0")
      ? { ...(record.mtu === undefined ? {} : { mtu: record.mtu }), socketPath: record.podSocketPath }
      : {}),
  };
  const before = config.prevResult;
  if (before === undefined) return { cniVersion: config.cniVersion, interfaces: [ours] };
  return { ...before, cniVersion: config.cniVersion, interfaces: [...(before.interfaces ?? []), ours] };
}
