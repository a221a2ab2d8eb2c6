// The CNI configuration of a claim or its DeviceClass (CNI spec 1.1.0, section 1): a list of plugins, or one plugin.
import * as z from "zod";
import type { Failure } from "../failure/failure.ts";
import { isPluginName } from "../ipam/ipam.ts";
import { SUPPORTED_CNI_VERSIONS } from "../names/cni-version.ts";

/** One plugin's configuration, without what is added for each call. */
export type PluginConfig = Record<string, unknown> & { type: string };

/** A network, as its plugins are called. */
export interface CniNetwork {
  readonly cniVersion: string;
  readonly name: string;
  /** In the order of ADD; DEL has the reverse. */
  readonly plugins: PluginConfig[];
}

/** Plugin types that claims may use, IPAM plugins too, each with its keys. */
export type AllowedPlugins = Readonly<Record<string, readonly string[]>>;

/** Makes the failure of a configuration. */
export type Refuse = (what: string, fix: string) => Failure;

const NAME = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$/;
/** Keys that the caller of plugins adds, or that say how it is to call them. */
const RESERVED = ["runtimeConfig", "prevResult"];
/** Deeper than any configuration. */
const NESTING_MAX = 16;

const pluginSchema = z.looseObject({
  type: z.string().refine(isPluginName, "must be the file name of an executable, not a path"),
  ipam: z
    .looseObject({
      type: z.string().refine(isPluginName, "must be the file name of an executable").optional(),
    })
    .optional(),
});
const nameSchema = z
  .string()
  .regex(NAME, "must begin with a letter or digit, and have no others than those and _.-");
const versionSchema = z.enum(SUPPORTED_CNI_VERSIONS);
const listSchema = z.strictObject({
  cniVersion: versionSchema,
  name: nameSchema,
  disableCheck: z.boolean().optional(),
  plugins: z.array(pluginSchema).min(1).max(16),
});
const singleSchema = pluginSchema.extend({ cniVersion: versionSchema, name: nameSchema });

/**
 * Reads a configuration, an object or JSON text as in a NetworkAttachmentDefinition, without running anything.
 * @throws what `refuse` makes
 */
export function parseCniNetwork(config: unknown, refuse: Refuse): CniNetwork {
  const object = typeof config === "string" ? parseJson(config, refuse) : config;
  if (depthOf(object) > NESTING_MAX)
    throw refuse(`config is nested more than ${NESTING_MAX} levels deep`, "correct it");
  const isList = typeof object === "object" && object !== null && "plugins" in object;
  const parsed = (isList ? listSchema : singleSchema).safeParse(object);
  if (!parsed.success) {
    throw refuse(
      `config is not a CNI configuration: ${z.prettifyError(parsed.error).replaceAll("\n", " ")}`,
      "correct it by the CNI specification 1.1.0, section 1",
    );
  }
  const { data } = parsed;
  const plugins = "plugins" in data && isList ? (data.plugins as PluginConfig[]) : [data as PluginConfig];
  for (const plugin of plugins) {
    const reserved = Object.keys(plugin).find((key) => RESERVED.includes(key) || key.startsWith("cni.dev/"));
    if (reserved === undefined) continue;
    throw refuse(
      `plugin ${plugin.type} has the key ${reserved}, which only its caller sets`,
      "remove the key",
    );
  }
  const { cniVersion, name } = data as { readonly cniVersion: string; readonly name: string };
  return {
    cniVersion,
    name,
    plugins: plugins.map(({ cniVersion: _, name: __, ...rest }) => rest as PluginConfig),
  };
}

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

/** The key of a plugin for its interface of the host. */
function hostKeyOf({ type }: PluginConfig): "device" | "master" {
  return type === "host-device" ? "device" : "master";
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
 * The network on the host interface that was allocated: `master` of its first plugin, or `device` of host-device.
 * @param hostInterface undefined for the device that has none
 * @throws what `refuse` makes where the configuration names another one
 */
export function onHostInterface(
  network: CniNetwork,
  hostInterface: string | undefined,
  refuse: Refuse,
): CniNetwork {
  const [first, ...others] = network.plugins;
  for (const plugin of network.plugins) {
    const key = hostKeyOf(plugin);
    if (plugin[key] === undefined || plugin[key] === hostInterface) continue;
    throw refuse(
      `config has the ${key} ${JSON.stringify(plugin[key])}, and the allocated device is ${hostInterface ?? "one without"}`,
      `remove ${key}: the request's device decides`,
    );
  }
  if (hostInterface === undefined || first === undefined) return network;
  return { ...network, plugins: [{ ...first, [hostKeyOf(first)]: hostInterface }, ...others] };
}

function parseJson(text: string, refuse: Refuse): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw refuse(
      `config is a text that is not JSON: ${(error as Error).message}`,
      "correct it, or write an object",
    );
  }
}

function depthOf(value: unknown): number {
  let depth = 0;
  for (let level = [value]; level.length > 0; depth += 1) {
    if (depth > NESTING_MAX) return depth;
    level = level.flatMap((one) => (typeof one === "object" && one !== null ? Object.values(one) : []));
  }
  return depth;
}
