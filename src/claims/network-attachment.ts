import * as z from "zod";
import { Failure } from "../failure/failure.ts";

/** A NetworkAttachmentDefinition, as far as IPAM reads it. */
export interface NetworkAttachment {
  readonly namespace: string;
  readonly name: string;
  /** `name` of the CNI configuration; undefined where it has none, and Multus puts in that of the object. */
  readonly network: string | undefined;
  /** At the top of the configuration, which is where kubevirt/ipam-extensions reads it. */
  readonly allowPersistentIPs: boolean;
  /** Pools of the plugin whose IPAM is ours; undefined where there is no such plugin, or it names ranges. */
  readonly pools: readonly string[] | undefined;
  /** Whether the plugin whose IPAM is ours has the key in its own part, which is all that it sees of a list of plugins. */
  readonly isAllowedInPlugin: boolean;
}

const OUR_IPAM = "kube-vhostuser-ipam";

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
    allowPersistentIPs: config.allowPersistentIPs ?? false,
    pools: pools.data,
    isAllowedInPlugin: ours?.allowPersistentIPs ?? false,
  };
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
