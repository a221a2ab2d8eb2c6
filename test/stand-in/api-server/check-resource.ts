// What the API server (1.36) checks and changes of resource.k8s.io/v1, as far as a driver of ours meets it.
import { isDeepStrictEqual } from "node:util";
import type { Json } from "./object-store.ts";

const DNS_LABEL = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;
const DNS_SUBDOMAIN = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;
const ATTRIBUTE = /^([a-z0-9.-]{1,63}\/)?[A-Za-z_][A-Za-z0-9_]{0,31}$/;
/** Of a condition (meta/v1). */
const REASON = /^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$/;

interface Device extends Json {
  readonly name: string;
  readonly attributes?: Readonly<Record<string, Json>>;
  readonly capacity?: Readonly<Record<string, Json>>;
  readonly allowMultipleAllocations?: boolean;
}

/** What is wrong with a slice, and with the change of one. */
export function wrongWithSlice(slice: Json, before: Json | undefined): readonly string[] {
  const spec = (slice["spec"] ?? {}) as Json;
  const pool = (spec["pool"] ?? {}) as Json;
  const devices = (spec["devices"] ?? []) as readonly Device[];
  const wrong: string[] = [];
  const expect = (isSo: boolean, what: string) => {
    if (!isSo) wrong.push(what);
  };
  const name = String((slice["metadata"] as Json)["name"]);
  expect(DNS_SUBDOMAIN.test(name) && name.length <= 253, "metadata.name must be a DNS subdomain");
  expect(DNS_SUBDOMAIN.test(String(spec["driver"])), "spec.driver must be a DNS subdomain");
  expect(typeof spec["nodeName"] === "string", "spec: exactly one of nodeName, … is required");
  expect(
    ["generation", "resourceSliceCount"].every((key) => Number.isInteger(pool[key])) &&
      Number(pool["resourceSliceCount"]) > 0,
    "spec.pool",
  );
  expect(devices.length <= 128, "spec.devices: must have at most 128 items");
  expect(new Set(devices.map(({ name: one }) => one)).size === devices.length, "spec.devices: duplicate");
  for (const device of devices) {
    const { attributes = {}, capacity = {} } = device;
    expect(DNS_LABEL.test(device.name), `device ${device.name} must be a DNS label`);
    expect(Object.keys({ ...attributes, ...capacity }).length <= 32, "at most 32 attributes and capacities");
    for (const [key, value] of Object.entries(attributes)) {
      expect(ATTRIBUTE.test(key), `attribute ${key}`);
      const { string, int, bool } = value;
      const isText = typeof string === "string" && string.length <= 64;
      const isValue = isText || Number.isInteger(int) || typeof bool === "boolean";
      expect(Object.keys(value).length === 1 && isValue, `value of ${key}`);
    }
    for (const { requestPolicy } of Object.values(capacity))
      expect(
        requestPolicy === undefined || device.allowMultipleAllocations === true,
        "requestPolicy needs allowMultipleAllocations",
      );
  }
  const old = (before?.["spec"] ?? spec) as Json;
  for (const key of ["driver", "nodeName"])
    expect(isDeepStrictEqual(old[key], spec[key]), `spec.${key}: field is immutable`);
  return wrong;
}

/** A slice as it is stored: quantities in canonical form, and nothing of feature gates that are off. */
export function storedSlice(slice: Json, canShare: boolean): Json {
  const spec = slice["spec"] as Json;
  const devices = (spec["devices"] ?? []) as readonly Device[];
  const kept = devices.map(({ allowMultipleAllocations, capacity, ...device }) => ({
    ...device,
    ...(canShare && allowMultipleAllocations !== undefined ? { allowMultipleAllocations } : {}),
    ...(capacity === undefined
      ? {}
      : {
          capacity: Object.fromEntries(
            Object.entries(capacity).map(([key, { requestPolicy, value }]) => [
              key,
              { value: canonical(String(value)), ...(canShare && requestPolicy ? { requestPolicy } : {}) },
            ]),
          ),
        }),
  }));
  const { devices: _, ...others } = spec;
  return { ...slice, spec: { ...others, ...(kept.length === 0 ? {} : { devices: kept }) } };
}

/** A space as it is stored: with the defaults of its definition. */
export function storedSpace(space: Json): Json {
  const spec = (space["spec"] ?? {}) as Json;
  const blockPrefixes = { ipv4: 28, ipv6: 122, ...((spec["blockPrefixes"] ?? {}) as Json) };
  return { ...space, spec: { ...spec, blockPrefixes } };
}

function canonical(quantity: string): string {
  const units = ["", "k", "M", "G", "T"];
  let [number, unit] = [quantity, 0];
  while (/[1-9]0*000$/.test(number) && unit < units.length - 1)
    [number, unit] = [number.slice(0, -3), unit + 1];
  return `${number}${units[unit]}`;
}

/** Keys of an entry in a claim's status.devices. */
export function deviceKey({ driver, pool, device, shareID = "" }: Json): string {
  return [driver, pool, device, shareID].join();
}

/** What is wrong with the status of a claim. */
export function wrongWithClaimStatus(claim: Json): readonly string[] {
  const { devices = [], allocation } = (claim["status"] ?? {}) as {
    readonly devices?: readonly Json[];
    readonly allocation?: { readonly devices: { readonly results: readonly Json[] } };
  };
  const allocated = new Set(allocation?.devices.results.map(deviceKey));
  return devices.flatMap((entry) => {
    const conditions = (entry["conditions"] ?? []) as readonly Json[];
    const network = (entry["networkData"] ?? {}) as Json;
    return [
      ...(allocated.has(deviceKey(entry))
        ? []
        : [`${deviceKey(entry)}: must be an allocated device in the claim`]),
      ...conditions.flatMap(({ reason, lastTransitionTime: time, message }) => [
        ...(REASON.test(String(reason)) ? [] : [`conditions.reason: ${JSON.stringify(reason)}`]),
        ...(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/.test(String(time)) ? [] : ["lastTransitionTime"]),
        ...(typeof message === "string" && message.length <= 32_768 ? [] : ["message"]),
      ]),
      ...(String(network["interfaceName"] ?? "").length <= 256 ? [] : ["networkData.interfaceName"]),
      ...((network["ips"] ?? []) as readonly unknown[])
        .filter((ip) => !/\/\d+$/.test(String(ip)))
        .map((ip) => `networkData.ips: ${String(ip)}`),
      ...(JSON.stringify(entry["data"] ?? {}).length <= 10_240
        ? []
        : ["data: may not be more than 10240 bytes"]),
    ];
  });
}
