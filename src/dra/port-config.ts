// What class and claim ask of a port, by opaque parameters (resource.k8s.io/v1, DeviceConfiguration).
import { isDeepStrictEqual } from "node:util";
import * as z from "zod";
import { networkConfigSchema, portKeys } from "../cni/network-keys.ts";
import type { CLAIM_KEYS } from "../config/claim-keys.ts";
import { unknownKeys } from "../config/unknown-keys.ts";
import { Failure } from "../failure/failure.ts";
import { present } from "../names/present.ts";
import { type AllocatedClaim, type ClaimResult, type ConfigEntry, refuseIn, whereOf } from "./claim.ts";
import { parseCniConfig, type Refuse } from "./cni-config.ts";
import { DRA_DRIVER, PLUGIN_TYPE } from "./dra-context.ts";

const { name, mtu, mac, ipam, dns, allowPersistentIPs } = networkConfigSchema.shape;
const keysSchema = z.strictObject({
  ...{ name: name.optional(), mtu, mac },
  ...{ ...portKeys, ipam, dns, allowPersistentIPs },
});

/** Our kind of parameters: the keys of a network's configuration. */
export const vhostUserPortSchema = z.strictObject({
  apiVersion: z.literal(`${DRA_DRIVER}/v1alpha1`),
  kind: z.literal("VhostUserPort"),
  ...keysSchema.shape,
});

/** What is asked of a port, by the keys of a network's configuration. */
export type PortParameters = z.infer<typeof keysSchema> & {
  /** Name of the interface in the status, where a CNIConfig gives one. */
  readonly ifName?: string;
};

type ParameterKey = (typeof CLAIM_KEYS)[number];

/** The kind of dra-driver-ovsdpdk, whose claims work with this driver as they are. */
const OTHER_DRIVER = "ovsdpdk.k8snetworkplumbingwg.io";
/** What Open vSwitch takes for an ingress_policing_burst of 0 (ovs-vswitchd.conf.db(5)). */
const DEFAULT_BURST_KBIT = 8_000;

const count = z.number().int().min(0);
const ovsPortConfigSchema = z.strictObject({
  apiVersion: z.literal(`${OTHER_DRIVER}/v1alpha1`),
  kind: z.literal("OvsPortConfig"),
  vlan: portKeys.vlan,
  /** In kbit/s and kbit. */
  policing: z.strictObject({ max_rate: count, burst: count.optional() }).optional(),
});

/**
 * Keys that belong together: what a class sets of one group no claim changes or adds to, for a trunk beside the class's
 * VLAN would open what that closes.
 */
const GROUPS: readonly (readonly ParameterKey[])[] = [
  ["bridge", "createBridge"],
  ["vlan", "vlanMode", "trunk", "customerVlans", "qinqEthertype", "protected"],
  ["bandwidth", "excessBandwidth"],
  ["mode", "vrf", "createVrf", "name", "ipam", "dhcp", "dns", "allowPersistentIPs"],
  ["externalIds", "ifaceId"],
  ["portSecurity"],
  ["txRetriesMax", "rxqAffinity"],
];
/** What every CNIConfig has; the network's name matters with `ipam` only, which a claim may set or not. */
const CNI_CONFIG_KEYS = ["ifName", "name"];

/**
 * What a result's port is to be: the class's entries in their order, then the claim's, key by key. Entries for a request
 * are also for its subrequests; those of other drivers are not ours to judge.
 * @param mayConfigure keys that a claim may set in the pool
 * @throws Failure `invalid-claim`, which names the key
 */
export function portParameters(
  claim: AllocatedClaim,
  result: ClaimResult,
  mayConfigure: readonly string[],
): PortParameters {
  const names = [result.request, `${result.request}/${result.subrequest ?? ""}`];
  const entries = claim.config.filter(
    (entry) =>
      isOurs(entry, claim) &&
      (entry.requests.length === 0 || entry.requests.some((one) => names.includes(one))),
  );
  const refuse = refuseIn(claim, result);
  const isCni = entries.some(isCniConfig);
  if (isCni && entries.length > 1) {
    throw refuse(
      `the request has ${entries.length} configurations, and one of them is a CNIConfig`,
      "leave one: a CNIConfig is not merged with another",
    );
  }
  const [fromClass, fromClaim] = (["FromClass", "FromClaim"] as const).map((source) =>
    Object.assign(
      {},
      ...entries.filter((entry) => entry.source === source).map((entry) => parseEntry(entry, claim, result)),
    ),
  ) as [PortParameters, PortParameters];
  for (const key of Object.keys(fromClaim) as ParameterKey[]) {
    if (isDeepStrictEqual(fromClaim[key], fromClass[key]) || (isCni && CNI_CONFIG_KEYS.includes(key)))
      continue;
    if (!mayConfigure.includes(key)) {
      throw refuse(
        `a claim may not set ${key} here`,
        `let its DeviceClass set it, or list ${key} in claims.mayConfigure of the pool`,
      );
    }
    const group = GROUPS.find((one) => one.includes(key)) ?? [];
    const fixed = group.find((one) => fromClass[one] !== undefined);
    if (fixed !== undefined) {
      throw refuse(
        `the claim sets ${key}, but its DeviceClass sets ${fixed}`,
        `remove ${key} from the claim`,
      );
    }
  }
  return { ...fromClass, ...fromClaim };
}

/** The burst that a limit has by default: a tenth of a second, and no less than Open vSwitch's own, in bits. */
const burstOf = (rate: number): number => Math.max(DEFAULT_BURST_KBIT * 1_000, Math.ceil(rate / 10));

/**
 * Parameters with limits in both directions, where the request took bandwidth of its pool: that, unless class and claim
 * set lower ones.
 * @throws Failure `invalid-claim` where they set a higher one
 */
export function withinBandwidth(
  parameters: PortParameters,
  { bandwidth: taken = 0 }: Pick<ClaimResult, "bandwidth">,
  where: string,
): PortParameters {
  if (taken === 0) return parameters;
  const { bandwidth: given = {}, excessBandwidth } = parameters;
  const burst = burstOf(taken);
  const bandwidth = {
    ...given,
    ...(given.ingressRate || given.ingressBurst ? {} : { ingressRate: taken, ingressBurst: burst }),
    ...(given.egressRate || given.egressBurst ? {} : { egressRate: taken, egressBurst: burst }),
  };
  const highest = Math.max(
    (bandwidth.ingressRate ?? 0) + (excessBandwidth?.rate ?? 0),
    bandwidth.egressRate ?? 0,
  );
  if (highest > taken) {
    throw new Failure({
      code: "invalid-claim",
      what: `its limit of ${highest} bits a second is above the bandwidth that the request takes, ${taken}`,
      where,
      fix: "let the request ask for more bandwidth (capacity.requests), or lower the limit in class or claim",
    });
  }
  return { ...parameters, bandwidth };
}

/** The other driver's entries are for us where it has no device of the claim. */
function isOurs({ driver }: ConfigEntry, { drivers }: AllocatedClaim): boolean {
  return driver === DRA_DRIVER || (driver === OTHER_DRIVER && !drivers.has(OTHER_DRIVER));
}

function isCniConfig({ parameters }: ConfigEntry): boolean {
  return (parameters as { readonly kind?: unknown } | null)?.kind === "CNIConfig";
}

function parseEntry(entry: ConfigEntry, claim: AllocatedClaim, result: ClaimResult): PortParameters {
  const { source, parameters } = entry;
  const where = `${whereOf(claim, result)}, configuration of its ${source === "FromClass" ? "DeviceClass" : "author"}`;
  const refuse: Refuse = (what, fix) => new Failure({ code: "invalid-claim", what, where, fix });
  if (isCniConfig(entry)) return portOfCniConfig(parameters, refuse);
  const { kind } = (parameters ?? {}) as { readonly kind?: unknown };
  if (kind === "OvsPortConfig") return fromOvsPortConfig(parsed(ovsPortConfigSchema, parameters, refuse));
  const { apiVersion: _, kind: __, ...keys } = parsed(vhostUserPortSchema, parameters, refuse);
  return present(keys);
}

/** @throws what `refuse` makes, which names the key */
function parsed<Schema extends z.ZodType>(
  schema: Schema,
  parameters: unknown,
  refuse: Refuse,
): z.output<Schema> {
  const { data, error } = schema.safeParse(parameters);
  if (error === undefined) return data as z.output<Schema>;
  const [unknown] = unknownKeys(schema, error.issues);
  if (unknown === undefined) {
    const problems = error.issues.map(({ path, message }) => `${path.join(".") || "parameters"}: ${message}`);
    throw refuse(problems.join("; "), "docs/dra.md has every key");
  }
  throw refuse(
    `${unknown.path.join(".")}: there is no such key`,
    unknown.meant === undefined
      ? "docs/dra.md has every key"
      : `write ${[...unknown.path.slice(0, -1), unknown.meant].join(".")}`,
  );
}

/**
 * What is asked of a port by parameters of kind CNIConfig: a network of ours, without the keys that only a runtime uses.
 * @throws what `refuse` makes, which names the key
 */
export function portOfCniConfig(parameters: unknown, refuse: Refuse): PortParameters {
  const { ifName, network } = parseCniConfig(parameters, refuse);
  const types = network.plugins.map(({ type }) => type);
  const [plugin, ...others] = network.plugins;
  if (plugin?.type !== PLUGIN_TYPE || others.length > 0) {
    throw refuse(
      `config has the plugins ${types.join(", ")}, and this driver makes ports by ${PLUGIN_TYPE} alone`,
      "take a DeviceClass of the driver cni.dra.networking.x-k8s.io for other plugins",
    );
  }
  const { type: _, capabilities: __, ...keys } = plugin;
  return present({ ...parsed(keysSchema, { name: network.name, ...keys }, refuse), ifName });
}

function fromOvsPortConfig({ vlan, policing }: z.infer<typeof ovsPortConfigSchema>): PortParameters {
  const { max_rate: rate = 0, burst = 0 } = policing ?? {};
  const bandwidth =
    rate === 0 ? undefined : { egressRate: rate * 1_000, egressBurst: (burst || DEFAULT_BURST_KBIT) * 1_000 };
  return present({ vlan, bandwidth });
}
