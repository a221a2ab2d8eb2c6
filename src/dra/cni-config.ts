// The opaque parameters of kind CNIConfig (kubernetes-sigs/cni-dra-driver, cni.networking.x-k8s.io/v1alpha1), and the CNI
// configuration in them (CNI spec 1.1.0, section 1): a list of plugins, or one plugin.
import * as z from "zod";
import type { Failure } from "../failure/failure.ts";
import { isPluginName } from "../ipam/ipam.ts";
import { SUPPORTED_CNI_VERSIONS } from "../names/cni-version.ts";
import { isInterfaceName } from "../names/interface-name.ts";

/** One plugin's configuration, without what is added for each call. */
export type PluginConfig = Record<string, unknown> & { type: string };

/** A network, as its plugins are called. */
export interface CniNetwork {
  readonly cniVersion: string;
  readonly name: string;
  readonly disableCheck?: boolean;
  /** In the order of ADD; DEL has the reverse. */
  readonly plugins: PluginConfig[];
}

/** Makes the failure of a configuration. */
export type Refuse = (what: string, fix: string) => Failure;

const NAME = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$/;
/** Keys that the caller of plugins adds, or that say how it is to call them. */
const RESERVED = ["runtimeConfig", "prevResult"];
/** Deeper than any configuration. */
const NESTING_MAX = 16;
/** Interfaces that every pod has. */
const TAKEN = ["lo", "eth0"];

const cniConfigSchema = z.strictObject({
  apiVersion: z.literal("cni.networking.x-k8s.io/v1alpha1"),
  kind: z.literal("CNIConfig"),
  ifName: z.string(),
  config: z.union([z.string(), z.looseObject({})]),
});

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
 * Reads parameters of kind CNIConfig, without running anything.
 * @throws what `refuse` makes
 */
export function parseCniConfig(
  parameters: unknown,
  refuse: Refuse,
): { readonly ifName: string; readonly network: CniNetwork } {
  const parsed = cniConfigSchema.safeParse(parameters);
  if (!parsed.success) {
    const why = z.prettifyError(parsed.error).replaceAll("\n", " ");
    throw refuse(
      `its parameters are not a CNIConfig: ${why}`,
      "correct them in the claim or its DeviceClass",
    );
  }
  const { ifName, config } = parsed.data;
  if (!isInterfaceName(ifName) || TAKEN.includes(ifName)) {
    throw refuse(
      `ifName ${JSON.stringify(ifName)} cannot be used`,
      "take 1 to 15 bytes without a slash, a colon or white space, and not lo or eth0",
    );
  }
  return { ifName, network: parseCniNetwork(config, refuse) };
}

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
    ...(isList && data["disableCheck"] === true ? { disableCheck: true } : {}),
    plugins: plugins.map(({ cniVersion: _, name: __, ...rest }) => rest as PluginConfig),
  };
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
