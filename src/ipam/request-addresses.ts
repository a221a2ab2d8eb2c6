import type { PortSettings } from "../config/port-settings.ts";
import type { CniVersion } from "../names/cni-version.ts";
import { present } from "../names/present.ts";
import type { Addressing, PortRecord } from "../records/port-record.ts";
import type { Records } from "../records/records.ts";
import { parseAddressing } from "./addressing.ts";
import { type Delegate, didNothing, type IpamRequest } from "./ipam.ts";
import { runIpam } from "./plugin-ipam.ts";
import { dropLease } from "./release-addresses.ts";

/**
 * The record of a port with the addresses that the IPAM of its lease gives, unless it has them already. Port security lets
 * these through, or they are routed to the port.
 * @param planned as it is recorded, so that the addresses are released whatever happens
 * @throws Failure of {@link runIpam}; the lease is then dropped where the IPAM did nothing
 */
export async function withAddressing(
  planned: PortRecord,
  request: IpamRequest,
  cniVersion: CniVersion,
  { ports, delegate }: Pick<Records, "ports"> & { readonly delegate: Delegate },
): Promise<PortRecord> {
  const { lease } = planned;
  if (lease === undefined) return planned;
  try {
    const given =
      lease.given ??
      parseAddressing(await runIpam(lease.type, "ADD", request, delegate), lease.type, cniVersion);
    const settings = withAddresses(planned.settings, given);
    return { ...planned, settings, lease: { ...lease, given } };
  } catch (error) {
    if (didNothing(error)) await dropLease(ports, planned, lease);
    throw error;
  }
}

/** Settings with the addresses that a port has; `dhcp` keeps the DNS settings that the network has itself. */
export function withAddresses(
  { security, routed, dhcp, ...settings }: PortSettings,
  { ips, routes, dns }: Addressing,
): PortSettings {
  const hosts = ips.map(({ address, gateway }) =>
    present({ address: address.replace(/\/.*$/, ""), gateway }),
  );
  return present({
    ...settings,
    security: security && { addresses: hosts.map(({ address }) => address) },
    routed: routed && { ...routed, hosts },
    dhcp: dhcp && {
      addresses: ips,
      // A guest has one routing table.
      routes: routes.filter(({ table }) => table === undefined).map(({ dst, gw }) => present({ dst, gw })),
      dns: present({
        nameservers: distinct([...dhcp.dns.nameservers, ...dns.nameservers]),
        domain: dhcp.dns.domain ?? dns.domain,
        search: distinct([...dhcp.dns.search, ...dns.search]),
      }),
    },
  });
}

function distinct(names: readonly string[]): string[] {
  return [...new Set(names)];
}
