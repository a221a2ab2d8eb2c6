import type * as z from "zod";
import { unknownKeys } from "../config/unknown-keys.ts";
import { Failure } from "../failure/failure.ts";
import { type CniVersion, checkCniVersion } from "../names/cni-version.ts";
import { networkConfigSchema } from "./network-keys.ts";

export type NetworkConfig = z.infer<typeof networkConfigSchema> & {
  readonly cniVersion: CniVersion;
  /** Paths of keys that are not known and were ignored. */
  readonly ignoredKeys: readonly string[];
};

/**
 * Keys that other plugins for the same purpose have, and what to write instead: a VLAN or a limit that its author
 * expects and that is not set is worse than an error.
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
 * Parses a plugin's stdin. Its version is checked first: other versions may have other keys. Unknown keys are left out,
 * but one that looks like a mistyped known key is refused.
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
  const cniVersion = checkCniVersion(json["cniVersion"] ?? "0.2.0");
  const ignoredKeys = removeUnknownKeys(json);
  const parsed = networkConfigSchema.safeParse(json);
  if (!parsed.success) throw invalid(json, parsed.error.issues);
  return { ...parsed.data, cniVersion, ignoredKeys };
}

/** @returns the paths of those removed @throws Failure `unsupported-field` for a mistyped key */
function removeUnknownKeys(json: object): readonly string[] {
  const { issues = [] } = networkConfigSchema.safeParse(json).error ?? {};
  return unknownKeys(networkConfigSchema, issues, OTHERS_KEYS).flatMap(({ path, meant }) => {
    const value = valueAt(json, path);
    const name = path.join(".");
    if (meant !== undefined) {
      throw new Failure({
        code: "unsupported-field",
        what: `${name}: ${shown(value)}: there is no such key`,
        where: "network configuration",
        fix: `write ${INSTEAD[meant] ?? [...path.slice(0, -1), meant].join(".")}`,
      });
    }
    delete valueAt(json, path.slice(0, -1))[path.at(-1) ?? ""];
    // Keys with a domain are other programs' own.
    return name.includes("/") ? [] : [name];
  });
}

// biome-ignore lint/suspicious/noExplicitAny: any JSON
function valueAt(json: any, path: readonly PropertyKey[]): any {
  return path.reduce((value, key) => value?.[key], json);
}

function parseObject(stdin: Buffer): Readonly<Record<string, unknown>> {
  const undecodable = (what: string, cause?: unknown) =>
    new Failure({
      code: "undecodable",
      what: `the network configuration is not ${what}`,
      where: "stdin",
      cause,
    });
  let json: unknown;
  try {
    json = JSON.parse(stdin.toString("utf8"));
  } catch (error) {
    throw undecodable(`JSON: ${error}`, error);
  }
  if (isObject(json) && !Array.isArray(json)) return json;
  throw undecodable("a JSON object");
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

/** Names every key with its value. */
function invalid(json: unknown, issues: readonly z.core.$ZodIssue[]): Failure {
  const problems = issues.map(
    ({ path, message }) => `${path.join(".")}: ${shown(valueAt(json, path))}: ${message}`,
  );
  const isUnsupported = issues.some((one) => one.code === "custom" && one.params?.["isUnsupported"]);
  return new Failure({
    code: isUnsupported ? "unsupported-field" : "invalid-network-config",
    what: problems.join("; "),
    where: "network configuration",
    fix: "correct the config of the NetworkAttachmentDefinition",
  });
}

function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? "missing";
  return text.length <= 100 ? text : `${text.slice(0, 100)}…`;
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null;
}
