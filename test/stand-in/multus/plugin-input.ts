import { isRecord } from "./is-record.ts";
import type { Delegate, PluginConfig } from "./network.ts";

/** The pod that an attachment belongs to. */
export interface PodIdentity {
  readonly namespace: string;
  readonly name: string;
  /** Empty with runtimes of old. */
  readonly uid: string;
}

/** What is the same for all of a sandbox's attachments. */
export interface Sandbox {
  readonly pod: PodIdentity;
  readonly containerId: string;
  /** Path of the network namespace; on DEL it may be gone, or empty. */
  readonly netns: string;
}

/** A plugin's stdin. */
export function pluginStdin(options: {
  readonly delegate: Delegate;
  readonly plugin: PluginConfig;
  readonly deviceInfoFile: string;
  readonly prevResult: unknown;
}): Readonly<Record<string, unknown>> {
  const { delegate, plugin } = options;
  const { network, deviceId } = delegate;
  const runtimeConfig = grantedCapabilities(plugin, {
    deviceID: deviceId ?? network.deviceID,
    CNIDeviceInfoFile: deviceId === undefined ? undefined : options.deviceInfoFile,
    mac: network.mac,
    ips: network.ips,
    bandwidth: network.bandwidth,
  });
  return {
    ...plugin,
    name: delegate.name,
    cniVersion: delegate.cniVersion,
    ...(deviceId === undefined ? {} : { deviceID: deviceId, pciBusID: deviceId }),
    ...(network.cniArgs === undefined ? {} : { args: mergedArgs(plugin["args"], network.cniArgs) }),
    ...(Object.keys(runtimeConfig).length === 0 ? {} : { runtimeConfig }),
    ...(options.prevResult === undefined ? {} : { prevResult: options.prevResult }),
  };
}

/** Only what the plugin's configuration declares as a capability reaches it. */
function grantedCapabilities(
  plugin: PluginConfig,
  offered: Readonly<Record<string, unknown>>,
): Readonly<Record<string, unknown>> {
  const declared = isRecord(plugin["capabilities"]) ? plugin["capabilities"] : {};
  return Object.fromEntries(
    Object.entries(offered).filter(([key, value]) => value !== undefined && declared[key] === true),
  );
}

function mergedArgs(args: unknown, cniArgs: Readonly<Record<string, unknown>>): object {
  const own = isRecord(args) ? args : {};
  return { ...own, cni: { ...(isRecord(own["cni"]) ? own["cni"] : {}), ...cniArgs } };
}

/** A plugin's CNI variables. MAC and IP are in CNI_ARGS on ADD alone. */
export function pluginEnvironment(options: {
  readonly verb: "ADD" | "DEL";
  readonly sandbox: Sandbox;
  readonly delegate: Delegate;
  readonly cniPath: string;
}): Readonly<Record<string, string>> {
  const { pod, containerId, netns } = options.sandbox;
  const { mac, ips } = options.delegate.network;
  const args = [
    "IgnoreUnknown=true",
    `K8S_POD_NAMESPACE=${pod.namespace}`,
    `K8S_POD_NAME=${pod.name}`,
    `K8S_POD_INFRA_CONTAINER_ID=${containerId}`,
    `K8S_POD_UID=${pod.uid}`,
  ];
  if (options.verb === "ADD" && mac !== undefined) args.push(`MAC=${mac}`);
  if (options.verb === "ADD" && ips !== undefined) args.push(`IP=${ips.join(",")}`);
  return {
    CNI_COMMAND: options.verb,
    CNI_CONTAINERID: containerId,
    CNI_NETNS: netns,
    CNI_IFNAME: options.delegate.ifName,
    CNI_ARGS: args.join(";"),
    CNI_PATH: options.cniPath,
  };
}
