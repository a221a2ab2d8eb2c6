import { Failure } from "../../failure/failure.ts";
import { VHOST_CLIENT } from "./rows.ts";
import type { View } from "./view.ts";

const VSCTL = "ovs-vsctl";

/**
 * Why the bridge cannot take vhost-user ports as switch and bridge are configured, or undefined where it can.
 * @param missing whether a bridge that is missing is unfit (default), or is going to be made
 */
export function whyUnfit(
  view: Pick<View, "switch" | "bridges">,
  name: string,
  { missing }: { readonly missing: "unfit" | "made" } = { missing: "unfit" },
): Failure | undefined {
  const bridge = view.bridges.find((candidate) => candidate.name === name);
  if (bridge === undefined && missing === "unfit") {
    const others = view.bridges.map((candidate) => JSON.stringify(candidate.name)).sort();
    return new Failure({
      code: "bridge-missing",
      what: `there is no bridge ${JSON.stringify(name)} in the switch`,
      where: others.length === 0 ? "it has no bridges" : `it has ${others.join(", ")}`,
      fix: `${VSCTL} add-br ${name} -- set Bridge ${name} datapath_type=netdev`,
    });
  }
  if (bridge !== undefined && bridge.datapath_type !== "netdev") {
    return new Failure({
      code: "dataplane-misconfigured",
      what: `bridge ${JSON.stringify(name)} has datapath_type ${JSON.stringify(bridge.datapath_type)}, vhost-user needs "netdev"`,
      where: `Bridge ${name}, column datapath_type`,
      fix: `${VSCTL} set Bridge ${name} datapath_type=netdev`,
    });
  }
  if (!view.switch.dpdk_initialized) {
    return new Failure({
      code: "dataplane-misconfigured",
      what: "ovs-vswitchd runs without DPDK",
      where: "Open_vSwitch.dpdk_initialized is false",
      fix: `${VSCTL} set Open_vSwitch . other_config:dpdk-init=true, reserve hugepages, restart ovs-vswitchd and read its log`,
    });
  }
  if (!view.switch.iface_types.includes(VHOST_CLIENT)) {
    return new Failure({
      code: "dataplane-misconfigured",
      what: `this ovs-vswitchd has no interface type ${VHOST_CLIENT}`,
      where: "Open_vSwitch.iface_types",
      fix: "install a build of Open vSwitch with DPDK and its vhost library",
    });
  }
  return undefined;
}
