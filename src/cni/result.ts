import { addressFamily } from "../ipam/addressing.ts";
import { type CniVersion, isAtLeast } from "../names/cni-version.ts";
import { present } from "../names/present.ts";
import { type Addressing, interfaceInSandbox, type PortRecord } from "../records/port-record.ts";
import type { NetworkConfig } from "./network-config.ts";

type Dns = NonNullable<NetworkConfig["dns"]>;

/**
 * ADD's result (CNI spec, section 5): what plugins before this one gave, then ours. Exactly one interface of ours:
 * Multus publishes device-info for none at all and, for several, the same one each; and KubeVirt reads what Multus
 * publishes.
 */
export function addResult(config: NetworkConfig, record: PortRecord): object {
  const { cniVersion, prevResult } = config;
  const { ips: ipsBefore, routes: routesBefore, dns: dnsBefore, ...rest } = prevResult ?? {};
  const interfaces = [...(prevResult?.interfaces ?? []), interfaceOf(record, cniVersion)];
  const given = record.lease?.given;
  const index = interfaces.length - 1;
  const ips = [...(ipsBefore ?? []), ...(given?.ips ?? []).map((ip) => ipOf(ip, index, cniVersion))];
  const routes = [
    ...(routesBefore ?? []),
    ...(given?.routes ?? []).map((route) => routeOf(route, cniVersion)),
  ];
  const dns = mergeDns([config.dns, given?.dns, dnsBefore]);
  return present({
    ...{ ...rest, cniVersion, interfaces },
    ips: ips.length === 0 ? undefined : ips,
    routes: routes.length === 0 ? undefined : routes,
    dns: Object.keys(dns).length === 0 ? undefined : dns,
  });
}

function interfaceOf(record: PortRecord, cniVersion: CniVersion) {
  const { mac, netns: sandbox, mtu, podSocketPath: socketPath } = record;
  const ours = { name: interfaceInSandbox(record), mac, sandbox };
  // Keys that the result has since 1.1.0 only.
  return isAtLeast(cniVersion, "1.1.0") ? present({ ...ours, mtu, socketPath }) : ours;
}

function ipOf(
  { address, gateway }: Addressing["ips"][number],
  index: number,
  cniVersion: CniVersion,
): object {
  const version = isAtLeast(cniVersion, "1.0.0") ? undefined : addressFamily(address);
  return present({ version, address, gateway, interface: index });
}

function routeOf(route: Addressing["routes"][number], cniVersion: CniVersion): object {
  if (isAtLeast(cniVersion, "1.1.0")) return route;
  return present({ dst: route.dst, gw: route.gw });
}

/** The first to name a domain has it; of lists every entry once, the first one's first. */
function mergeDns(sources: readonly (Partial<Dns> | null | undefined)[]): object {
  const lists = (["nameservers", "search", "options"] as const).flatMap((key) => {
    const entries = [...new Set(sources.flatMap((source) => source?.[key] ?? []))];
    return entries.length === 0 ? [] : [[key, entries] as const];
  });
  const domain = sources.map((source) => source?.domain).find((text) => text !== undefined && text !== "");
  return present({ ...Object.fromEntries(lists), domain });
}
