// Calls the plugins of a network (CNI spec 1.1.0, sections 2 and 3).
import { Failure } from "../failure/failure.ts";
import type { Delegate } from "../ipam/ipam.ts";
import { type PluginKind, runPlugin } from "../ipam/plugin-ipam.ts";
import type { Attachment, InterfacePlan } from "./interface-record.ts";

const CNI_PLUGIN: PluginKind = {
  ...{ name: "CNI plugin", failed: "cni-plugin-failed", missing: "cni-plugin-missing" },
  log: "the log of the cni-dra pod on this node",
};
/** Plugins such as bridge run iptables. */
const PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/** The result of an ADD, as far as it is read here; the rest is kept as it is. */
export type CniResult = Readonly<Record<string, unknown>>;

/**
 * ADD of every plugin, in order; the caller calls {@link delNetwork} where it fails.
 * @returns the last plugin's result
 * @throws Failure cni-plugin-failed, cni-plugin-missing
 */
export async function addNetwork(
  plan: InterfacePlan,
  at: Attachment,
  delegate: Delegate,
): Promise<CniResult> {
  let result: CniResult | undefined;
  for (const plugin of plan.network.plugins) {
    const answer = await runPlugin(CNI_PLUGIN, request("ADD", plan, at, at.netns, plugin, result), delegate);
    if (typeof answer !== "object" || answer === null || Array.isArray(answer)) {
      throw new Failure({
        code: "cni-plugin-failed",
        what: `CNI plugin ${JSON.stringify(plugin.type)} printed no result`,
        where: "CNI ADD",
        fix: "replace the plugin by a release that follows the CNI specification",
      });
    }
    result = answer as CniResult;
  }
  return result ?? {};
}

/**
 * DEL of every plugin, in reverse order, all of them even where one fails. It may be repeated.
 * @param netns empty where the network namespace is gone
 * @throws Failure of the first that failed
 */
export async function delNetwork(
  plan: InterfacePlan,
  at: Attachment,
  netns: string,
  delegate: Delegate,
): Promise<void> {
  const failures: unknown[] = [];
  for (const plugin of plan.network.plugins.toReversed()) {
    // Since 0.4.0 (CNI spec, section 4).
    const prevResult = /^0\.3\./.test(plan.network.cniVersion) ? undefined : at.result;
    await runPlugin(CNI_PLUGIN, request("DEL", plan, at, netns, plugin, prevResult), delegate).catch(
      (error: unknown) => failures.push(error),
    );
  }
  if (failures.length > 0) throw failures[0];
}

/**
 * CHECK of every plugin, in order (CNI spec, section 3).
 * @throws Failure of the first that failed
 */
export async function checkNetwork(plan: InterfacePlan, at: Attachment, delegate: Delegate): Promise<void> {
  for (const plugin of plan.network.plugins)
    await runPlugin(CNI_PLUGIN, request("CHECK", plan, at, at.netns, plugin, at.result), delegate);
}

function request(
  verb: "ADD" | "CHECK" | "DEL",
  { network, ifName, pod }: InterfacePlan,
  { sandbox }: Attachment,
  netns: string,
  plugin: InterfacePlan["network"]["plugins"][number],
  prevResult: object | undefined,
): Parameters<typeof runPlugin>[1] {
  const { cniVersion, name } = network;
  const config = { ...plugin, cniVersion, name, ...(prevResult && { prevResult }) };
  const args = {
    IgnoreUnknown: "1",
    K8S_POD_NAMESPACE: pod.namespace,
    K8S_POD_NAME: pod.name,
    K8S_POD_INFRA_CONTAINER_ID: sandbox,
    K8S_POD_UID: pod.uid,
  };
  const env = {
    PATH,
    CNI_CONTAINERID: sandbox,
    CNI_NETNS: netns,
    CNI_IFNAME: ifName,
    CNI_ARGS: Object.entries(args)
      .map(([key, value]) => `${key}=${value}`)
      .join(";"),
  };
  return { type: plugin.type, verb, env, stdin: Buffer.from(JSON.stringify(config)) };
}
