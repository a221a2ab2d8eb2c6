import { z } from "zod";
import { VLAN_MODES, VRF_MAX } from "../config/port-settings.ts";
import { Failure } from "../failure/failure.ts";
import { dnsSchema } from "../ipam/addressing.ts";
import { type Delegate, type Ipam, isPluginName } from "../ipam/ipam.ts";
import { openIpam } from "../ipam/plugin-ipam.ts";
import { type CniVersion, checkCniVersion } from "../names/cni-version.ts";

/** Open vSwitch' limit for a vhost port: 9728 bytes less layer 2, CRC and two VLAN tags. */
const MTU_MAX = 9702;

const interfaceSchema = z.looseObject({
  name: z.string(),
  mac: z.string().optional(),
  sandbox: z.string().optional(),
});

/** A result of plugins before us; what we do not add to passes as it is. Go plugins print `null` for empty lists. */
const resultSchema = z.looseObject({
  interfaces: z.array(interfaceSchema).nullish(),
  ips: z.array(z.looseObject({})).nullish(),
  routes: z.array(z.looseObject({})).nullish(),
  dns: dnsSchema.nullish(),
});

const attachmentsSchema = z.array(z.looseObject({ containerID: z.string(), ifname: z.string() }));

const vlanId = z.number().int().min(0).max(4094);

/** One VLAN, or a range of them with both ends, in the words of ovs-cni. */
const vlanRange = z.union(
  [
    vlanId.transform((id) => ({ minID: id, maxID: id })),
    z.strictObject({ id: vlanId }).transform(({ id }) => ({ minID: id, maxID: id })),
    z
      .strictObject({ minID: vlanId, maxID: vlanId })
      .refine(({ minID, maxID }) => minID <= maxID, { error: "minID must not be above maxID" }),
  ],
  { error: 'must be {"id": 10} or {"minID": 10, "maxID": 20} with VLANs from 0 to 4094' },
);

const bits = z.number().int().min(0);

/** The object of CNI's capability `bandwidth` (CNI conventions): bits a second, and bits. 0 means no limit. */
const bandwidthSchema = z.looseObject({
  ingressRate: bits.optional(),
  ingressBurst: bits.optional(),
  egressRate: bits.optional(),
  egressBurst: bits.optional(),
});

/** Text that the switch's database and a runtime's argument can hold. */
const idText = z.string().min(1).max(255);

/** `"0:3,1:7"`: queue 0 on core 3, queue 1 on core 7. */
const queueCores = z
  .string()
  .regex(/^\d{1,4}:\d{1,4}(,\d{1,4}:\d{1,4})*$/, 'must be pairs of queue and core, such as "0:3,1:7"')
  .transform((text) =>
    text.split(",").map((pair): [number, number] => {
      const [queue = 0, core = 0] = pair.split(":").map(Number);
      return [queue, core];
    }),
  )
  .refine((pairs) => new Set(pairs.map(([queue]) => queue)).size === pairs.length, {
    error: "must name each queue once",
  });

/** What a network configuration may ask of the port, beside bridge and MTU; docs/cni.md describes each. */
export const portKeys = {
  vlan: vlanId.optional(),
  vlanMode: z.enum(VLAN_MODES).optional(),
  trunk: z.array(vlanRange).optional(),
  customerVlans: z.array(vlanRange).optional(),
  qinqEthertype: z.enum(["802.1ad", "802.1q"]).optional(),
  bandwidth: bandwidthSchema.optional(),
  excessBandwidth: z
    .strictObject({ rate: z.number().int().positive(), burst: z.number().int().positive() })
    .optional(),
  txRetriesMax: z.number().int().min(0).max(32).optional(),
  rxqAffinity: queueCores.optional(),
  protected: z.boolean().optional(),
  externalIds: z.record(idText, z.string().max(1024)).optional(),
  ifaceId: idText.optional(),
  portSecurity: z.boolean().optional(),
  createBridge: z.boolean().optional(),
  mode: z.enum(["l2", "l3"]).optional(),
  vrf: z.number().int().min(0).max(VRF_MAX).optional(),
  createVrf: z.boolean().optional(),
  socketServer: z.enum(["guest", "switch"]).optional(),
};

/** Unknown keys pass, as the CNI specification demands; ours are checked. */
const networkConfigSchema = z
  .looseObject({
    cniVersion: z.string().default("0.2.0"),
    name: z.string().regex(/^[A-Za-z0-9][A-Za-z0-9_.-]*$/, "must be a network name as CNI defines it"),
    type: z.string().optional(),
    bridge: z.string().min(1).optional(),
    mtu: z.number().int().min(68).max(MTU_MAX).optional(),
    mac: z.string().optional(),
    deviceID: z.string().optional(),
    ...portKeys,
    ipam: z
      .looseObject({
        /** Undefined where guests manage their addresses, which an empty one says too. */
        type: z
          .string()
          .refine((type) => type === "" || isPluginName(type), "must be the file name of a CNI plugin")
          .transform((type) => type || undefined)
          .optional(),
      })
      .nullish(),
    dns: dnsSchema.nullish(),
    runtimeConfig: z
      .looseObject({
        deviceID: z.string().optional(),
        CNIDeviceInfoFile: z.string().optional(),
        mac: z.string().optional(),
        bandwidth: bandwidthSchema.optional(),
      })
      .nullish(),
    args: z
      .looseObject({
        cni: z.looseObject({ mac: z.string().optional(), OvnPort: z.string().max(255).optional() }).nullish(),
      })
      .nullish(),
    prevResult: resultSchema.nullish(),
    "cni.dev/valid-attachments": attachmentsSchema.nullish(),
    "cni.dev/attachments": attachmentsSchema.nullish(),
  })
  .refine(({ ipam, type }) => ipam?.type === undefined || ipam.type !== type, {
    path: ["ipam", "type"],
    error: "must not be this very plugin",
  });

export type NetworkConfig = z.infer<typeof networkConfigSchema> & {
  readonly cniVersion: CniVersion;
};

/** Every key that is read. */
export function networkConfigKeys(): readonly string[] {
  return Object.keys(networkConfigSchema.shape);
}

/**
 * Parses a plugin's stdin. Its version is checked first: other versions may have other keys.
 * @throws Failure `undecodable` (no JSON), `unsupported-cni-version`, `unsupported-field`, `invalid-network-config`
 */
export function parseNetworkConfig(stdin: Buffer): NetworkConfig {
  const json = parseObject(stdin);
  if (isNestedDeeper(json, NESTING_MAX)) {
    throw new Failure({
      code: "invalid-network-config",
      what: `the network configuration is nested more than ${NESTING_MAX} levels deep`,
      where: "stdin, perhaps in prevResult",
      fix: "correct the config of the NetworkAttachmentDefinition, or the plugin before this one",
    });
  }
  const { cniVersion: asked = "0.2.0" } = json;
  const cniVersion = checkCniVersion(asked);
  refuseUnsupportedKeys(json);
  const parsed = networkConfigSchema.safeParse(json);
  if (!parsed.success) throw invalid(json, parsed.error.issues);
  return { ...parsed.data, cniVersion };
}

function parseObject(stdin: Buffer): Readonly<Record<string, unknown>> {
  let json: unknown;
  let cause: unknown;
  try {
    json = JSON.parse(stdin.toString("utf8"));
  } catch (error) {
    cause = error;
  }
  if (isObject(json) && !Array.isArray(json)) return json;
  throw new Failure({
    code: "undecodable",
    what: `the network configuration is not ${cause === undefined ? "a JSON object" : `JSON: ${cause}`}`,
    where: "stdin",
    cause,
  });
}

/** What is printed again, as prevResult is, must not exhaust the stack; real configurations have some ten levels. */
const NESTING_MAX = 64;

function isNestedDeeper(value: unknown, levels: number): boolean {
  let level: unknown[] = [value];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > levels) return true;
    level = level.flatMap((one) => (isObject(one) ? Object.values(one) : []));
  }
  return false;
}

/** What manages a network's addresses; undefined where guests do. */
export function ipamOf({ ipam }: NetworkConfig, delegate: Delegate): Ipam | undefined {
  return ipam?.type === undefined ? undefined : openIpam(ipam.type, delegate);
}

/** Names every key with its value. */
function invalid(json: unknown, issues: readonly z.core.$ZodIssue[]): Failure {
  const problems = issues.map(({ path, message }) => `${path.join(".")}: ${shown(json, path)}: ${message}`);
  return new Failure({
    code: "invalid-network-config",
    what: problems.join("; "),
    where: "network configuration",
    fix: "correct the config of the NetworkAttachmentDefinition",
  });
}

function shown(json: unknown, path: readonly PropertyKey[]): string {
  let value = json;
  for (const key of path) value = (value as Readonly<Record<PropertyKey, unknown>> | undefined)?.[key];
  const text = JSON.stringify(value) ?? "missing";
  return text.length <= 100 ? text : `${text.slice(0, 100)}…`;
}

/**
 * Keys that other plugins for the same purpose have, and what to write instead. CNI has unknown keys pass, but a VLAN
 * or a limit that its author expects and that is not set is worse than an error.
 */
const INSTEAD: Readonly<Record<string, string>> = {
  vlanId: "vlan",
  vlan_id: "vlan",
  vlan_mode: "vlanMode",
  trunks: "trunk",
  ingressPolicingRate: "bandwidth.egressRate, in bits a second",
  ingressPolicingBurst: "bandwidth.egressBurst, in bits",
  mtu_request: "mtu",
};

/** Keys of other plugins that are refused. */
export const OTHERS_KEYS: readonly string[] = Object.keys(INSTEAD);

/**
 * Refuses what is known and cannot be honoured (CNI spec 1.1.0, error code 2: the message names key and value).
 * @throws Failure `unsupported-field`
 */
function refuseUnsupportedKeys(config: Readonly<Record<string, unknown>>): void {
  for (const [key, instead] of Object.entries(INSTEAD)) {
    if (config[key] !== undefined) throw unsupported(key, config[key], `write ${instead}`);
  }
  if (config["ipMasq"] === true) {
    throw unsupported("ipMasq", true, "leave it out: packets do not pass through the node's kernel");
  }
  for (const where of ["runtimeConfig", undefined]) {
    const holder = where === undefined ? config : config[where];
    const bandwidth = isObject(holder) ? holder["bandwidth"] : undefined;
    if (!isObject(bandwidth)) continue;
    for (const key of ["shapedSubnets", "unshapedSubnets"]) {
      const value = bandwidth[key];
      if (!Array.isArray(value) || value.length === 0) continue;
      const path = [where, "bandwidth", key].filter((part) => part !== undefined).join(".");
      throw unsupported(path, value, "leave it out: the limit is for all of the port's traffic");
    }
  }
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null;
}

function unsupported(key: string, value: unknown, fix: string): Failure {
  return new Failure({
    code: "unsupported-field",
    what: `${key}: ${JSON.stringify(value)} is not supported`,
    where: "network configuration",
    fix,
  });
}
