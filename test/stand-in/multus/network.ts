import { isRecord } from "./is-record.ts";

/** One element of the pod's network selection together with its NetworkAttachmentDefinition. */
export interface SelectedNetwork {
  /** Namespace and name of the NetworkAttachmentDefinition. */
  readonly namespace: string;
  readonly name: string;
  /** `spec.config`: one plugin's configuration or a list of them. */
  readonly config: string | Readonly<Record<string, unknown>>;
  /** The definition's annotation `k8s.v1.cni.cncf.io/resourceName`. */
  readonly resourceName?: string;
  /** Selection keys. */
  readonly interface?: string;
  readonly mac?: string;
  readonly ips?: readonly string[];
  readonly deviceID?: string;
  /** In bits a second and bits. */
  readonly bandwidth?: Readonly<Record<string, number>>;
  readonly cniArgs?: Readonly<Record<string, unknown>>;
}

/** A CNI plugin's own configuration. */
export type PluginConfig = Readonly<Record<string, unknown>> & { readonly type: string };

/** A network as Multus hands it to CNI, and as it keeps it for DEL. */
export interface Delegate {
  /** `<namespace>/<name>` of the definition. */
  readonly id: string;
  readonly network: SelectedNetwork;
  /** The CNI network's name: from the configuration, else the definition's. */
  readonly name: string;
  readonly cniVersion: string;
  readonly plugins: readonly PluginConfig[];
  readonly ifName: string;
  /** Id of a device of the network's resource. */
  readonly deviceId?: string;
}

const VERSIONS = ["0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"];

/** Whether a CNI version is at least another; both known to this runtime. */
export function isVersionAtLeast(version: string, least: string): boolean {
  return VERSIONS.indexOf(version) >= VERSIONS.indexOf(least);
}

/** Reads a selected network. @param index position among all networks of the pod; the default network is 0 */
export function toDelegate(network: SelectedNetwork, index: number, deviceId?: string): Delegate {
  const id = `${network.namespace}/${network.name}`;
  const config: unknown = typeof network.config === "string" ? JSON.parse(network.config) : network.config;
  if (!isRecord(config)) throw new Error(`${id}: config is not an object`);
  const name = typeof config["name"] === "string" && config["name"] !== "" ? config["name"] : network.name;
  if (!/^[A-Za-z0-9][A-Za-z0-9_.-]*$/.test(name)) throw new Error(`${id}: invalid network name ${name}`);
  const ifName = network.interface ?? `net${index}`;
  if (!/^[^\s/:]{1,15}$/.test(ifName)) throw new Error(`${id}: invalid interface name ${ifName}`);
  const plugins: unknown = Array.isArray(config["plugins"]) ? config["plugins"] : [config];
  if (!Array.isArray(plugins) || plugins.length === 0 || !plugins.every(isPlugin)) {
    throw new Error(`${id}: a plugin without type, or none`);
  }
  const cniVersion = pickVersion(config, id);
  return {
    id,
    network,
    name,
    cniVersion,
    plugins,
    ifName,
    ...(deviceId === undefined ? {} : { deviceId }),
  };
}

function pickVersion(config: Readonly<Record<string, unknown>>, id: string): string {
  const offered = [
    config["cniVersion"],
    ...(Array.isArray(config["cniVersions"]) ? config["cniVersions"] : []),
  ];
  const known = VERSIONS.filter((version) => offered.includes(version));
  const highest = known.at(-1);
  if (highest === undefined) throw new Error(`${id}: no known CNI version in ${JSON.stringify(offered)}`);
  return highest;
}

function isPlugin(value: unknown): value is PluginConfig {
  return isRecord(value) && typeof value["type"] === "string" && /^[^/\s]+$/.test(value["type"]);
}
