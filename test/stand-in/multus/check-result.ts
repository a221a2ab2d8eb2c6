import { isIP } from "node:net";
import { isRecord } from "./is-record.ts";
import { isVersionAtLeast } from "./network.ts";
import { CniViolation } from "./run-plugin.ts";

/** An interface in a result. */
export interface ResultInterface {
  readonly name: string;
  readonly mac?: string;
  readonly sandbox?: string;
  readonly mtu?: number;
  readonly socketPath?: string;
  readonly pciID?: string;
}

/** What ADD gives. */
export interface CniResult {
  readonly cniVersion: string;
  readonly interfaces?: readonly ResultInterface[];
  readonly ips?: readonly {
    readonly address: string;
    readonly gateway?: string;
    readonly interface?: number;
  }[];
  readonly routes?: readonly { readonly dst: string; readonly gw?: string }[];
  readonly dns?: Readonly<Record<string, unknown>>;
}

type Kind = "text" | "count" | "cidr" | "ip" | "mac" | "ipVersion";

/** Checks a result of ADD against the specification of its version. @throws CniViolation */
export function checkResult(answer: unknown): CniResult {
  if (!isRecord(answer)) throw new CniViolation("ADD: no result on stdout");
  const version = String(answer["cniVersion"]);
  const is10 = isVersionAtLeast(version, "1.0.0");
  const is11 = isVersionAtLeast(version, "1.1.0");
  onlyKeys("result", answer, ["cniVersion", "interfaces", "ips", "routes", "dns"]);
  const interfaces = list(answer, "interfaces");
  for (const [index, item] of interfaces.entries()) {
    check(
      `interfaces[${index}]`,
      item,
      { name: "text" },
      {
        mac: "mac",
        sandbox: "text",
        ...(is11 ? { mtu: "count", socketPath: "text", pciID: "text" } : {}),
      },
    );
    if (Buffer.byteLength(String(item["name"])) > 15)
      throw new CniViolation(`interfaces[${index}].name is too long`);
  }
  for (const [index, item] of list(answer, "ips").entries()) {
    const where = `ips[${index}]`;
    check(
      where,
      item,
      { address: "cidr", ...(is10 ? {} : { version: "ipVersion" }) },
      {
        gateway: "ip",
        interface: "count",
      },
    );
    if (Number(item["interface"] ?? 0) >= Math.max(1, interfaces.length)) {
      throw new CniViolation(`${where}.interface is no index of interfaces`);
    }
  }
  for (const [index, item] of list(answer, "routes").entries()) {
    check(
      `routes[${index}]`,
      item,
      { dst: "cidr" },
      {
        gw: "ip",
        ...(is11 ? { mtu: "count", advmss: "count", priority: "count", table: "count", scope: "count" } : {}),
      },
    );
  }
  const { dns } = answer;
  if (dns !== undefined && !isRecord(dns)) throw new CniViolation("dns is no object");
  if (dns !== undefined) onlyKeys("dns", dns, ["nameservers", "domain", "search", "options"]);
  return answer as unknown as CniResult;
}

function list(answer: Record<string, unknown>, key: string): readonly Record<string, unknown>[] {
  const value = answer[key] ?? [];
  if (!Array.isArray(value) || !value.every(isRecord)) throw new CniViolation(`${key} is no list of objects`);
  return value;
}

function onlyKeys(where: string, value: Record<string, unknown>, allowed: readonly string[]): void {
  const extra = Object.keys(value).filter((key) => !allowed.includes(key));
  if (extra.length > 0) throw new CniViolation(`${where} has keys that this version does not know: ${extra}`);
}

function check(
  where: string,
  value: Record<string, unknown>,
  required: Readonly<Record<string, Kind>>,
  optional: Readonly<Record<string, Kind>>,
): void {
  onlyKeys(where, value, [...Object.keys(required), ...Object.keys(optional)]);
  for (const [key, kind] of Object.entries({ ...required, ...optional })) {
    if (value[key] === undefined && !(key in required)) continue;
    if (!IS[kind](value[key])) {
      throw new CniViolation(`${where}.${key} is ${JSON.stringify(value[key])}, not a valid ${kind}`);
    }
  }
}

const IS: Readonly<Record<Kind, (value: unknown) => boolean>> = {
  text: (value) => typeof value === "string" && value !== "",
  count: (value) => Number.isInteger(value) && Number(value) >= 0,
  ip: (value) => typeof value === "string" && isIP(value) !== 0,
  cidr: (value) => {
    const [address, prefix, ...rest] = String(value).split("/");
    const bits = isIP(address ?? "") === 6 ? 128 : 32;
    const isPrefix = /^\d{1,3}$/.test(prefix ?? "") && Number(prefix) <= bits;
    return isIP(address ?? "") !== 0 && isPrefix && rest.length === 0;
  },
  mac: (value) => typeof value === "string" && /^[0-9a-f]{2}(:[0-9a-f]{2}){5}$/i.test(value),
  ipVersion: (value) => value === "4" || value === "6",
};
