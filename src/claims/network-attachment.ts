import * as z from "zod";
import { Failure } from "../failure/failure.ts";

/** A NetworkAttachmentDefinition, as far as IPAM reads it. */
export interface NetworkAttachment {
  readonly namespace: string;
  readonly name: string;
  /** `name` of the CNI configuration; undefined where it has none, and Multus puts in that of the object. */
  readonly network: string | undefined;
  /** In the part of the plugin whose IPAM is ours: of a list of plugins, CNI gives it nothing else. */
  readonly allowPersistentIPs: boolean;
  /** At the top of the configuration, where kubevirt/ipam-extensions reads the key. */
  readonly isAllowedAtTop: boolean;
  /** Pools of the plugin whose IPAM is ours; undefined where there is no such plugin, or it names ranges. */
  readonly pools: readonly string[] | undefined;
}

/** `ipam.type` of networks whose addresses our IPAM hands out. */
export const OUR_IPAM = "kube-vhostuser-ipam";

const pluginSchema = z.looseObject({
  allowPersistentIPs: z.boolean().nullish(),
  ipam: z.looseObject({ type: z.string().nullish(), pools: z.unknown().optional() }).nullish(),
});
const configSchema = pluginSchema.extend({
  name: z.string().nullish(),
  plugins: z.array(pluginSchema).nullish(),
});
const nadSchema = z.looseObject({
  metadata: z.looseObject({ namespace: z.string(), name: z.string() }),
  spec: z.looseObject({ config: z.string().nullish() }).nullish(),
});

/** @throws Failure `invalid-network-config` where its configuration is not JSON of CNI's shape */
export function parseNetworkAttachment(object: unknown): NetworkAttachment {
  const { metadata, spec } = nadSchema.parse(object);
  const { namespace, name } = metadata;
  const text = spec?.config ?? "";
  const config =
    text.trim() === "" ? {} : parseConfig(text, `NetworkAttachmentDefinition ${namespace}/${name}`);
  const plugins = config.plugins ?? [config];
  const ours = plugins.find(({ ipam }) => ipam?.type === OUR_IPAM);
  const pools = z.array(z.string()).safeParse(ours?.ipam?.pools);
  return {
    ...{ namespace, name, network: config.name || undefined },
    allowPersistentIPs: ours?.allowPersistentIPs ?? false,
    isAllowedAtTop: config.allowPersistentIPs ?? false,
    pools: pools.data,
  };
}

/** Why interfaces of a network of ours get no addresses of claims; undefined where they do. */
export function whyNotPersistent({
  allowPersistentIPs,
  isAllowedAtTop,
}: NetworkAttachment): string | undefined {
  if (allowPersistentIPs) return undefined;
  return isAllowedAtTop
    ? 'it has "allowPersistentIPs" beside "plugins" only: write it also into the plugin with the "ipam" section, because CNI gives a plugin its own part only'
    : 'it does not have "allowPersistentIPs": true';
}

function parseConfig(text: string, where: string): z.infer<typeof configSchema> {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (cause) {
    throw invalid("spec.config is not JSON", where, cause);
  }
  const { data, error } = configSchema.safeParse(json);
  if (data !== undefined) return data;
  const what = error.issues
    .map(({ path, message }) => `spec.config ${path.join(".")}: ${message}`)
    .join("; ");
  throw invalid(what, where);
}

function invalid(what: string, where: string, cause?: unknown): Failure {
  const fix = "correct the NetworkAttachmentDefinition";
  return new Failure({ code: "invalid-network-config", what, where, fix, cause });
}
