import { z } from "zod";
import { Failure } from "../failure/failure.ts";
import { dnsSchema } from "../ipam/addressing.ts";
import type { Delegate } from "../ipam/delegate.ts";
import { type Ipam, isPluginName } from "../ipam/ipam.ts";
import { openIpam } from "../ipam/open-ipam.ts";
import { type CniVersion, checkCniVersion } from "../names/cni-version.ts";
import { bandwidthSchema, portKeys } from "./port-keys.ts";
import { refuseUnsupportedKeys } from "./unsupported-keys.ts";

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

/** Unknown keys pass, as the CNI specification demands; ours are checked. */
const networkConfigSchema = z.looseObject({
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
      type: z
        .string()
        .refine((type) => type === "" || isPluginName(type), {
          error: "must be the file name of a CNI plugin",
        })
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
  let json: unknown;
  try {
    json = JSON.parse(stdin.toString("utf8"));
  } catch (error) {
    throw new Failure({
      code: "undecodable",
      what: `the network configuration is not JSON: ${String(error)}`,
      where: "stdin",
      cause: error,
    });
  }
  if (typeof json !== "object" || json === null || Array.isArray(json)) {
    throw new Failure({
      code: "undecodable",
      what: "the network configuration is not a JSON object",
      where: "stdin",
    });
  }
  if (isNestedDeeper(json, NESTING_MAX)) {
    throw new Failure({
      code: "invalid-network-config",
      what: `the network configuration is nested more than ${NESTING_MAX} levels deep`,
      where: "stdin, perhaps in prevResult",
      fix: "correct the config of the NetworkAttachmentDefinition, or the plugin before this one",
    });
  }
  const { cniVersion = "0.2.0" } = json as { readonly cniVersion?: unknown };
  const version = checkCniVersion(cniVersion);
  refuseUnsupportedKeys(json as Readonly<Record<string, unknown>>);
  const parsed = networkConfigSchema.safeParse(json);
  if (!parsed.success) throw invalid(json, parsed.error.issues);
  const { ipam, type } = parsed.data;
  if (ipam?.type !== undefined && ipam.type !== "" && ipam.type === type) {
    throw invalid(json, [{ path: ["ipam", "type"], message: "must not be this very plugin" }]);
  }
  return { ...parsed.data, cniVersion: version };
}

/** What is printed again, as prevResult is, must not exhaust the stack; real configurations have some ten levels. */
const NESTING_MAX = 64;

function isNestedDeeper(value: unknown, levels: number): boolean {
  let level: unknown[] = [value];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > levels) return true;
    level = level.flatMap((one) => (typeof one === "object" && one !== null ? Object.values(one) : []));
  }
  return false;
}

/** The IPAM plugin that a network names; undefined where guests manage their addresses. */
export function ipamType(config: NetworkConfig): string | undefined {
  const type = config.ipam?.type;
  return type === "" ? undefined : type;
}

/** What manages a network's addresses; undefined where guests do. */
export function ipamOf(config: NetworkConfig, delegate: Delegate): Ipam | undefined {
  const type = ipamType(config);
  return type === undefined ? undefined : openIpam(type, delegate);
}

interface Issue {
  readonly path: readonly PropertyKey[];
  readonly message: string;
}

/** Names every key with its value. */
function invalid(json: unknown, issues: readonly Issue[]): Failure {
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
