// The network's configuration as the IPAM agent reads it from stdin.
import * as z from "zod";
import { subnetOf } from "../address-objects/address-pool.ts";
import { dnsSchema, routeSchema, subnetSchema } from "../address-objects/fields.ts";
import { DEFAULT_SPACE } from "../address-objects/resources.ts";
import { ADDRESS_BITS, formatAddress, lastOf, type Prefix, parsePrefix } from "../addresses/address.ts";
import { RangeSet } from "../addresses/range-set.ts";
import { parseRange } from "../addresses/subnet.ts";
import { unknownKeys } from "../config/unknown-keys.ts";
import { Failure } from "../failure/failure.ts";
import { type CniVersion, checkCniVersion } from "../names/cni-version.ts";
import { type AddressSource, sourceOfPool } from "./address-source.ts";
import type { NodeState } from "./node-state.ts";

/** How long an address of ranges rests after its release; a pool has its own. */
export const COOLDOWN_SECONDS = 60;

/** One entry of a set in host-local's form; as there, the gateway is the subnet's first host unless another is named. */
const rangeSchema = z
  .strictObject({
    subnet: z.string(),
    rangeStart: z.string().optional(),
    rangeEnd: z.string().optional(),
    gateway: z.string().optional(),
  })
  .transform(({ subnet, rangeStart, rangeEnd, gateway }, context) => {
    const prefix = parsePrefix(subnet);
    const isWhole = prefix === undefined || (rangeStart === undefined && rangeEnd === undefined);
    const bounds = isWhole ? [] : [`${rangeStart ?? subnet.split("/")[0]}-${rangeEnd ?? lastHostOf(prefix)}`];
    const parsed = subnetSchema.safeParse({
      cidr: subnet,
      ranges: bounds,
      gateway: gateway ?? (prefix && firstHostOf(prefix)),
    });
    if (parsed.success) return parsed.data;
    for (const { path, message } of parsed.error.issues) {
      const key = { cidr: "subnet", ranges: "rangeStart, rangeEnd" }[String(path[0])] ?? "gateway";
      context.addIssue(`${key}: ${message}`);
    }
    return z.NEVER;
  });

const ipamSchema = z
  .strictObject({
    type: z.string(),
    pools: z.array(z.string().min(1)).min(1, "must name a pool").optional(),
    ranges: z
      .array(z.array(rangeSchema).min(1, "must have a range"))
      .min(1, "must have a set of ranges")
      .optional(),
    space: z.string().min(1).optional(),
    exclude: z
      .array(
        z.string().refine((text) => parseRange(text) !== undefined, {
          error: "is not a range, a network or an address",
        }),
      )
      .optional(),
    routes: z.array(routeSchema).optional(),
    dns: dnsSchema.optional(),
  })
  .superRefine(({ pools, ranges, space, exclude }, context) => {
    if ((pools === undefined) === (ranges === undefined))
      context.addIssue('write either "pools" or "ranges"');
    if (pools !== undefined && new Set(pools).size < pools.length)
      context.addIssue({ code: "custom", path: ["pools"], message: "must name each pool once" });
    if (pools === undefined) return;
    for (const [key, value] of Object.entries({ space, exclude })) {
      if (value !== undefined)
        context.addIssue({ code: "custom", path: [key], message: "belongs to ranges: a pool has its own" });
    }
  });

const attachmentsSchema = z.array(z.looseObject({ containerID: z.string(), ifname: z.string() }));
const textList = z.array(z.string()).nullish();

/** Keys beside these are those of the plugin that delegates to us. */
const configSchema = z.looseObject({
  name: z.string().regex(/^[A-Za-z0-9][A-Za-z0-9_.-]*$/, "must be a network name as CNI defines it"),
  ipam: ipamSchema,
  /** Interfaces get the addresses of the IPAMClaim that the pod names for them. */
  allowPersistentIPs: z.boolean().optional(),
  runtimeConfig: z.looseObject({ ips: textList, mac: z.string().nullish() }).nullish(),
  args: z
    .looseObject({
      cni: z
        .looseObject({
          ips: textList,
          mac: z.string().nullish(),
          /** What a sticky address is kept for. */
          addressKey: z.string().min(1).max(128).nullish(),
        })
        .nullish(),
    })
    .nullish(),
  prevResult: z.looseObject({ ips: z.array(z.looseObject({ address: z.string() })).nullish() }).nullish(),
  "cni.dev/valid-attachments": attachmentsSchema.nullish(),
  "cni.dev/attachments": attachmentsSchema.nullish(),
});

export type NetworkConfig = z.infer<typeof configSchema> & { readonly cniVersion: CniVersion };

/**
 * Parses stdin.
 * @throws Failure `undecodable`, `unsupported-cni-version`, `unsupported-field` for a key that is not known,
 *   `invalid-network-config`
 */
export function parseNetworkConfig(stdin: Buffer): NetworkConfig {
  let json: unknown;
  try {
    json = JSON.parse(stdin.toString("utf8"));
  } catch (error) {
    throw new Failure({
      code: "undecodable",
      what: `the network configuration is not JSON: ${error}`,
      where: "stdin",
      cause: error,
    });
  }
  const { cniVersion: version } = z.looseObject({ cniVersion: z.unknown() }).safeParse(json).data ?? {};
  const cniVersion = checkCniVersion(typeof version === "string" ? version : "0.2.0");
  const parsed = configSchema.safeParse(json);
  if (parsed.success) {
    const { allowPersistentIPs, ipam } = parsed.data;
    if (allowPersistentIPs === true && ipam.pools === undefined)
      throw invalid("allowPersistentIPs: needs ipam.pools; a claim gets no addresses of ipam.ranges");
    return { ...parsed.data, cniVersion };
  }
  const { issues } = parsed.error;
  const [unknown] = unknownKeys(configSchema, issues);
  if (unknown !== undefined) {
    const { path, meant } = unknown;
    throw new Failure({
      code: "unsupported-field",
      what: `${path.join(".")}: there is no such key`,
      where: "network configuration",
      fix: meant === undefined ? "remove it" : `write ${[...path.slice(0, -1), meant].join(".")}`,
    });
  }
  throw invalid(issues.map(({ path, message }) => `${path.join(".") || "it"}: ${message}`).join("; "));
}

/** What an interface's addresses come from, one of each. @throws Failure `pool-missing` */
export function sourcesOf({ name, ipam }: NetworkConfig, state: NodeState): readonly AddressSource[] {
  const { pools = [], ranges, space = DEFAULT_SPACE, exclude: texts = [] } = ipam;
  if (ranges === undefined) return pools.map((pool) => sourceOfPool(pool, state));
  return ranges.map((set, index) => {
    const family = set[0]?.cidr.family ?? "ipv4";
    if (set.some(({ cidr }) => cidr.family !== family))
      throw invalid(`ipam.ranges.${index}: a set has IPv4 or IPv6 subnets, not both`);
    const exclude = texts.flatMap((text) => parseRange(text) ?? []).filter((one) => one.family === family);
    const subnets = set.map((range) => subnetOf({ ...range, exclude }));
    const usable = subnets.reduce((union, subnet) => union.plus(subnet.usable), RangeSet.EMPTY);
    const bounds = usable.ranges.map(({ first, last }) => `${first}-${last}`).join();
    return {
      key: `network ${name}, space ${space}, ${family} ${bounds}`,
      pool: undefined,
      ...{ space, family, subnets, usable, routes: [], dns: undefined, cooldownSeconds: COOLDOWN_SECONDS },
    };
  });
}

function firstHostOf({ family, value, length }: Prefix): string | undefined {
  if (length > ADDRESS_BITS[family] - 2) return undefined;
  return formatAddress({ family, value: value + 1n });
}

function lastHostOf(prefix: Prefix): string {
  const { family } = prefix;
  return formatAddress({ family, value: lastOf(prefix) - (family === "ipv4" ? 1n : 0n) });
}

function invalid(what: string): Failure {
  return new Failure({
    code: "invalid-network-config",
    what,
    where: "network configuration",
    fix: "correct the config of the NetworkAttachmentDefinition",
  });
}
