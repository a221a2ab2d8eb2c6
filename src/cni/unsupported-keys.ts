import { Failure } from "../failure/failure.ts";

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
export function refuseUnsupportedKeys(config: Readonly<Record<string, unknown>>): void {
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
