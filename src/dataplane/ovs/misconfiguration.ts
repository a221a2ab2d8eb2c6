import { describeThrown, Failure } from "../../failure/failure.ts";
import type { Readiness } from "../dataplane.ts";
import type { PortRequest } from "../port.ts";
import { isVswitchdRunning, type OvsContext, readApplied, readRows } from "./database.ts";
import {
  type BridgeRow,
  bridgeTable,
  releaseTable,
  type SwitchRow,
  switchTable,
  VHOST_CLIENT,
  VHOST_SERVER,
} from "./tables.ts";

/**
 * {@link Dataplane.probe}. It changes nothing in the database, because every change, however small, makes
 * ovs-vswitchd go through its whole configuration again.
 */
export async function probe(context: OvsContext, bridge: string, signal: AbortSignal): Promise<Readiness> {
  const not = (reason: string): Readiness => ({ ready: false, reason });
  try {
    if (!(await isVswitchdRunning(context, signal))) return not("ovs-vswitchd is not running");
    const queries = [switchTable.select(), bridgeTable.select()] as const;
    const [[row], bridges] = await readRows(context.client, queries, signal);
    if (row === undefined) return not("the switch's database is empty");
    const problem = bridgeProblem({ switch: row, bridges }, bridge);
    if (problem !== undefined) return not(problem.message);
    await readApplied(context, row.next_cfg, [], signal);
    return { ready: true };
  } catch (thrown) {
    return not(describeThrown(thrown));
  }
}

/** {@link Dataplane.version}, as the database has it. */
export async function version(context: OvsContext, signal: AbortSignal): Promise<string> {
  const [[row]] = await readRows(context.client, [releaseTable.select()], signal);
  // ovs-ctl writes the release, so it is missing where ovs-vswitchd was started without it.
  const release = row?.ovs_version === undefined ? "Open vSwitch" : `Open vSwitch ${row.ovs_version}`;
  return `${release}, ${row?.dpdk_version ?? "no DPDK"}`;
}

/**
 * Why the bridge cannot take vhost-user ports as it and the switch are configured, or undefined where it can.
 * @param isCreatable whether a missing bridge is going to be created
 */
export function bridgeProblem(
  view: { readonly switch: SwitchRow; readonly bridges: readonly BridgeRow[] },
  name: string,
  isCreatable = false,
): Failure | undefined {
  const bridge = view.bridges.find((candidate) => candidate.name === name);
  if (bridge === undefined && !isCreatable) {
    const others = view.bridges.map((candidate) => JSON.stringify(candidate.name)).sort();
    return new Failure({
      code: "bridge-missing",
      what: `there is no bridge ${JSON.stringify(name)} in the switch`,
      where: others.length === 0 ? "it has no bridges" : `it has ${others.join(", ")}`,
      fix: `ovs-vsctl add-br ${name} -- set Bridge ${name} datapath_type=netdev`,
    });
  }
  if (bridge !== undefined && bridge.datapath_type !== "netdev") {
    return misconfigured(
      `bridge ${JSON.stringify(name)} has datapath_type ${JSON.stringify(bridge.datapath_type)}, vhost-user needs "netdev"`,
      `Bridge ${name}, column datapath_type`,
      `ovs-vsctl set Bridge ${name} datapath_type=netdev`,
    );
  }
  if (!view.switch.dpdk_initialized) {
    return misconfigured(
      "ovs-vswitchd runs without DPDK",
      "Open_vSwitch.dpdk_initialized is false",
      "ovs-vsctl set Open_vSwitch . other_config:dpdk-init=true, reserve hugepages, restart ovs-vswitchd and read its log",
    );
  }
  if (view.switch.iface_types.includes(VHOST_CLIENT)) return undefined;
  return misconfigured(
    `this ovs-vswitchd has no interface type ${VHOST_CLIENT}`,
    "Open_vSwitch.iface_types",
    "install a build of Open vSwitch with DPDK and its vhost library",
  );
}

/**
 * Why the switch, as its administrator has configured it, would accept these settings and not apply them, or
 * undefined. The keys are of the whole switch, so they are not ours to change.
 */
export function settingProblem(
  { other_config: config, iface_types }: Pick<SwitchRow, "other_config" | "iface_types">,
  { name, settings }: Pick<PortRequest, "name" | "settings">,
): Failure | undefined {
  // The default of 1 counts the inner tag as payload, and a tunnel cannot distinguish customer VLANs.
  if (settings.vlan?.mode === "dot1q-tunnel" && (config.get("vlan-limit") ?? "1") === "1") {
    return misconfigured(
      `port ${name} is to be a dot1q-tunnel, and the switch parses one VLAN tag only`,
      "Open_vSwitch.other_config:vlan-limit",
      "ovs-vsctl set Open_vSwitch . other_config:vlan-limit=2",
    );
  }
  if (settings.socketServer === "switch" && !iface_types.includes(VHOST_SERVER)) {
    return misconfigured(
      `the switch is to create the socket of port ${name}, and this ovs-vswitchd has no interface type ${VHOST_SERVER}`,
      "Open_vSwitch.iface_types",
      "let the guest's side create the socket",
    );
  }
  return coreProblem(config, name, settings.receiveQueueCores ?? []);
}

/**
 * What can be asked of a misconfigured switch for a port whose guest runs. Cores are left to the switch, for a queue
 * on one that does not poll is silent; a tunnel stays one, because otherwise the guest would reach other VLANs.
 */
export function supportedRequest(
  { other_config: config }: Pick<SwitchRow, "other_config">,
  request: PortRequest,
): PortRequest {
  const { receiveQueueCores, ...settings } = request.settings;
  return coreProblem(config, request.name, receiveQueueCores ?? []) ? { ...request, settings } : request;
}

/** Without a mask the switch chooses its polling cores itself, and does not publish them. */
function coreProblem(
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
    return misconfigured(
      `port ${name} asks for core ${idle[1]} to poll its queue ${idle[0]}, and the switch polls with no such core`,
      where,
      "change the cores in the network configuration, or add the core to pmd-cpu-mask",
    );
  }
  const asked = pairs.reduce((cores, [, core]) => cores | (1n << BigInt(core)), 0n);
  // The switch honours pmd-rxq-isolate with this assignment only.
  const isShared = config.get("pmd-rxq-isolate") === "false" && config.get("pmd-rxq-assign") === "group";
  if (asked !== polling || isShared) return undefined;
  return misconfigured(
    `port ${name} asks for all cores that the switch polls with, and a core with such a queue polls no queue that did not ask for it: other ports would go silent`,
    where,
    "ask for fewer cores, or ovs-vsctl set Open_vSwitch . other_config:pmd-rxq-assign=group other_config:pmd-rxq-isolate=false",
  );
}

function misconfigured(what: string, where: string, fix: string): Failure {
  return new Failure({ code: "dataplane-misconfigured", what, where, fix });
}
