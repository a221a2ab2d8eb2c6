import { addressFamily } from "../ipam/addressing.ts";
import { type CniVersion, isAtLeast } from "../names/cni-version.ts";
import { present } from "../names/present.ts";
import type { Allocation } from "./journal-entries.ts";

/** What an IPAM plugin's ADD prints (CNI spec 1.1.0, section 5, "Delegated plugins (IPAM)"). */
export function addResult({ addresses, routes, dns }: Allocation, cniVersion: CniVersion): object {
  const ips = addresses.map(({ address, gateway }) => {
    const version = isAtLeast(cniVersion, "1.0.0") ? undefined : addressFamily(address);
    return present({ version, address, gateway });
  });
  const given = isAtLeast(cniVersion, "1.1.0") ? routes : routes.map(({ dst, gw }) => present({ dst, gw }));
  return present({ cniVersion, ips, routes: given.length === 0 ? undefined : given, dns });
}
