import { createHash } from "node:crypto";

/**
 * Cookies of our flows: 24 bits that say "ours" (the letters `vhu`), then 40 bits of the SHA-256 of the port's name.
 * Port names are unique in a switch. Two of a thousand ports share a cookie once in about two million nodes, and
 * then removing one's flows removes the other's, which the next pass puts back.
 */
const OURS = 0x766875n << 40n;

/** The bits of a cookie that are the same in all flows of ours. */
export const OURS_FILTER = { cookie: OURS, cookieMask: 0xffffffn << 40n } as const;

/** The cookie of a port's flows. */
export function portCookie(portName: string): bigint {
  const digest = createHash("sha256").update(portName).digest();
  return OURS | (digest.readBigUInt64BE() >> 24n);
}

/** Takes the flows of exactly this port. */
export function portFilter(portName: string): { readonly cookie: bigint; readonly cookieMask: bigint } {
  return { cookie: portCookie(portName), cookieMask: 0xffff_ffff_ffff_ffffn };
}

/** The cookie of {@link forwardingFlow}, which is of no port. */
export const FORWARDING_COOKIE = OURS;
