import { runProgram } from "../machine/run-program.ts";
import type { NetworkNamespace } from "./network-namespace.ts";
import type { OvsDpdk } from "./ovs-dpdk.ts";

/** A switch as far as a link to it goes. */
export interface SwitchEnd {
  readonly ovs: OvsDpdk;
  readonly bridge: string;
  /** The namespace that it was started in. */
  readonly network: NetworkNamespace;
}

/** Each switch's port to the other one, and the device behind it. */
export const UPLINK = "uplink";

/**
 * Joins two switches as a network between nodes does: a veth pair, which carries all VLANs. DPDK's af_packet driver
 * makes it a port that the polling thread serves, as it serves a network card; a kernel port would wait for
 * ovs-vswitchd's main thread, which blocks while it makes ports. The pair goes with the namespaces.
 * @throws Failure internal, with the switch's words, where it cannot open its end
 */
export async function linkSwitches(one: SwitchEnd, other: SwitchEnd): Promise<void> {
  const peer = ["peer", "name", UPLINK, "netns", other.network.name];
  await runProgram("ip", ["-n", one.network.name, "link", "add", UPLINK, "type", "veth", ...peer]);
  for (const { ovs, bridge, network } of [one, other]) {
    // Without an IPv6 address, or the kernel would speak on the link too.
    await runProgram("ip", ["-n", network.name, "link", "set", UPLINK, "addrgenmode", "none", "up"]);
    await ovs.vsctl(
      ...["add-port", bridge, UPLINK, "--", "set", "Interface", UPLINK, "type=dpdk"],
      `options:dpdk-devargs=net_af_packet0,iface=${UPLINK}`,
    );
  }
}
