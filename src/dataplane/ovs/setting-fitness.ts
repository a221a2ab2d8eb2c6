import { Failure } from "../../failure/failure.ts";
import type { PortRequest } from "../port.ts";
import { type SwitchRow, VHOST_SERVER } from "./rows.ts";

/**
 * Why the switch, as its administrator has configured it, would take these settings and then not do as they say; or
 * undefined. Both keys are of the whole switch, so that it is not for us to change them.
 */
export function whySettingUnfit(
  { other_config: config, iface_types }: Pick<SwitchRow, "other_config" | "iface_types">,
  { name, settings }: Pick<PortRequest, "name" | "settings">,
): Failure | undefined {
  // Absent is 1: the inner tag counts as payload, and a tunnel cannot tell customer VLANs.
  const limit = config.get("vlan-limit") ?? "1";
  if (settings.vlan?.mode === "dot1q-tunnel" && limit === "1") {
    return new Failure({
      code: "dataplane-misconfigured",
      what: `port ${name} is to be a dot1q-tunnel, and the switch looks at one VLAN tag only`,
      where: "Open_vSwitch.other_config:vlan-limit",
      fix: "ovs-vsctl set Open_vSwitch . other_config:vlan-limit=2",
    });
  }
  if (settings.socketServer === "switch" && !iface_types.includes(VHOST_SERVER)) {
    return new Failure({
      code: "dataplane-misconfigured",
      what: `port ${name} is to have its socket made by the switch, and this ovs-vswitchd has no interface type ${VHOST_SERVER}`,
      where: "Open_vSwitch.iface_types",
      fix: "let the guest's side make the socket",
    });
  }
  return whyCoresUnfit(config, name, settings.receiveQueueCores ?? []);
}

/**
 * What may be asked of an unfit switch for a port whose guest runs. Cores are left to the switch, for a queue on one
 * that does not poll is silent; a tunnel stays a tunnel, because as anything else it would reach other VLANs.
 */
export function fittingRequest(
  { other_config: config }: Pick<SwitchRow, "other_config">,
  request: PortRequest,
): PortRequest {
  const { receiveQueueCores, ...settings } = request.settings;
  const unfit = whyCoresUnfit(config, request.name, receiveQueueCores ?? []) !== undefined;
  return unfit ? { ...request, settings } : request;
}

/** Without a mask the switch chooses its cores itself, and nobody can tell which they are. */
function whyCoresUnfit(
  config: ReadonlyMap<string, string>,
  name: string,
  pairs: readonly (readonly [queue: number, core: number])[],
): Failure | undefined {
  const mask = config.get("pmd-cpu-mask");
  const digits = /^(?:0[xX])?([0-9a-fA-F]+)$/.exec(mask ?? "")?.[1];
  if (digits === undefined || pairs.length === 0) return undefined;
  const where = `Open_vSwitch.other_config:pmd-cpu-mask is ${mask}`;
  const polling = BigInt(`0x${digits}`);
  const idle = pairs.find(([, core]) => ((polling >> BigInt(core)) & 1n) === 0n);
  if (idle !== undefined) {
    return new Failure({
      code: "dataplane-misconfigured",
      what: `port ${name} asks for core ${idle[1]} to poll its queue ${idle[0]}, and the switch polls with no such core`,
      where,
      fix: "change the cores in the network configuration, or add the core to pmd-cpu-mask",
    });
  }
  const asked = pairs.reduce((cores, [, core]) => cores | (1n << BigInt(core)), 0n);
  if (asked !== polling || keepsCoresShared(config)) return undefined;
  return new Failure({
    code: "dataplane-misconfigured",
    what: `port ${name} asks for all cores that the switch polls with, and a core with such a queue polls no queue that did not ask for it: other ports would go silent`,
    where,
    fix: "ask for fewer cores, or ovs-vsctl set Open_vSwitch . other_config:pmd-rxq-assign=group other_config:pmd-rxq-isolate=false",
  });
}

/** The switch heeds pmd-rxq-isolate with this assignment only. */
function keepsCoresShared(config: ReadonlyMap<string, string>): boolean {
  return config.get("pmd-rxq-isolate") === "false" && config.get("pmd-rxq-assign") === "group";
}
