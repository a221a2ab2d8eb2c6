import { isIPv4, isIPv6 } from "node:net";
import { ipv4Bytes, ipv6Bytes, isHostAddress } from "../../../addresses/host-address.ts";
import { Failure } from "../../../failure/failure.ts";
import { parseUnicastMac } from "../../../names/mac-address.ts";

/** What a guest may claim to be, as bytes. */
export interface Identity {
  readonly mac: Buffer;
  /** 4 bytes each. */
  readonly ipv4: readonly Buffer[];
  /** 16 bytes each. */
  readonly ipv6: readonly Buffer[];
}

/**
 * Reads a MAC and addresses without prefix length; duplicates are dropped.
 * @throws Failure invalid-request for what no single guest can have
 */
export function readIdentity(mac: string, addresses: readonly string[]): Identity {
  const normal = parseUnicastMac(mac);
  const bad = addresses.find((address) => !isHostAddress(address));
  if (normal === undefined || bad !== undefined) {
    const found =
      normal === undefined ? `${JSON.stringify(mac)} is not a MAC` : `${JSON.stringify(bad)} is not an`;
    throw new Failure({
      code: "invalid-request",
      what: `${found} address that a guest can have`,
      where: "port security",
      fix: "give a unicast MAC and single addresses of hosts, without prefix length or zone",
    });
  }
  const ipv4 = addresses.filter((address) => isIPv4(address)).map(ipv4Bytes);
  const ipv6 = addresses.filter((address) => isIPv6(address)).map(ipv6Bytes);
  return { mac: Buffer.from(normal.replaceAll(":", ""), "hex"), ipv4: distinct(ipv4), ipv6: distinct(ipv6) };
}

function distinct(values: readonly Buffer[]): Buffer[] {
  return values.filter((value, index) => values.findIndex((other) => other.equals(value)) === index);
}
