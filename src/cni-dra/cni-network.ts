// What of a CNI configuration the driver decides: who may use which plugins and keys, and the host interface.
import type { CniNetwork, PluginConfig, Refuse } from "../dra/cni-config.ts";

/** Plugin types that claims may use, IPAM plugins too, each with its keys. */
export type AllowedPlugins = Readonly<Record<string, readonly string[]>>;

/**
 * Refuses plugins and keys of a claim's configuration that the administrator has not listed. `ipam` is judged as a plugin of
 * its own.
 * @throws what `refuse` makes
 */
export function requireAllowed({ plugins }: CniNetwork, allowed: AllowedPlugins, refuse: Refuse): void {
  for (const { ipam, ...plugin } of plugins) {
    requireListed(plugin, allowed, refuse);
    const { type, ...rest } = (ipam ?? {}) as { readonly type?: string };
    if (type !== undefined) requireListed({ type, ...rest }, allowed, refuse);
    else if (Object.keys(rest).length > 0)
      throw refuse("ipam has keys and no type", "add ipam.type, or remove ipam");
  }
}

function requireListed(plugin: PluginConfig, allowed: AllowedPlugins, refuse: Refuse): void {
  const { type, ...rest } = plugin;
  const keys = Object.hasOwn(allowed, type) ? allowed[type] : undefined;
  if (keys === undefined) {
    throw refuse(
      `a claim may not use the plugin ${type} here`,
      `let its DeviceClass use it, or list it in allowedPlugins (now: ${Object.keys(allowed).join(", ") || "none"})`,
    );
  }
  const unlisted = Object.keys(rest).find((key) => !keys.includes(key));
  if (unlisted === undefined) return;
  throw refuse(
    `a claim may not set ${unlisted} of the plugin ${type} here`,
    `let its DeviceClass set it, or list it in allowedPlugins (now: ${keys.join(", ") || "none"})`,
  );
}

/** Whether a plugin without `master` takes the interface of the node's default route (containernetworking/plugins). */
function takesDefaultRoute({ type, master }: PluginConfig, index: number): boolean {
  return master === undefined && (type === "macvlan" || (type === "ipvlan" && index === 0));
}

/** The key of a plugin for its interface of the host. */
function hostKeyOf({ type }: PluginConfig): "device" | "master" {
  return type === "host-device" ? "device" : "master";
}

/** The host interface that a configuration names; undefined where it names none. */
export function hostInterfaceOf({ plugins }: CniNetwork): string | undefined {
  const named = plugins.map((plugin) => plugin[hostKeyOf(plugin)]).find((one) => one !== undefined);
  return typeof named === "string" ? named : undefined;
}

/** The network without what only the driver sets: it is not for the administrator to list. */
export function withoutHostInterface(network: CniNetwork): CniNetwork {
  const plugins = network.plugins.map((plugin) => {
    const { [hostKeyOf(plugin)]: _, ...rest } = plugin;
    return rest as PluginConfig;
  });
  return { ...network, plugins };
}

/**
 * The network on the host interface that was allocated: `master` of its first plugin, or `device` of host-device, and
 * `master` of every plugin that would take another one without it.
 * @param hostInterface undefined for the device that has none
 * @throws what `refuse` makes where the configuration names another one, or a plugin needs one that the device does not have
 */
export function onHostInterface(
  network: CniNetwork,
  hostInterface: string | undefined,
  refuse: Refuse,
): CniNetwork {
  const plugins = network.plugins.map((plugin, index) => {
    const key = hostKeyOf(plugin);
    if (hostInterface === undefined && takesDefaultRoute(plugin, index))
      throw refuse(
        `the plugin ${plugin.type} has no host interface, and would take that of the node's default route`,
        "select the device of an interface in a claim, or name the master in a network",
      );
    if (plugin[key] !== undefined && plugin[key] !== hostInterface)
      throw refuse(
        `config has the ${key} ${JSON.stringify(plugin[key])}, and the allocated device is ${hostInterface ?? "one without"}`,
        `remove ${key}: the request's device decides`,
      );
    const isGiven = hostInterface !== undefined && (index === 0 || takesDefaultRoute(plugin, index));
    return isGiven ? { ...plugin, [key]: hostInterface } : plugin;
  });
  return { ...network, plugins };
}
