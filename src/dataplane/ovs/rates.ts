import type { Rate } from "../../config/port-settings.ts";

/** What Open vSwitch itself takes where a burst of 0 is given for policing what a guest sends. */
const DEFAULT_BURST_BITS = 8_000_000;

/** Bits that may pass at once: 0 stands for the default in both directions. */
export function burstBits(rate: Rate): number {
  return rate.burst === 0 ? DEFAULT_BURST_BITS : rate.burst;
}

/** Interface.ingress_policing_rate and _burst, in kbit/s and kbit: rounded up, so that a small limit is not "none". */
export function policingColumns(rate: Rate): { readonly rate: number; readonly burst: number } {
  return { rate: Math.ceil(rate.rate / 1000), burst: Math.ceil(burstBits(rate) / 1000) };
}

/** A rate of a policer in QoS.other_config: bytes a second, never 0, which it would refuse. */
export function rateBytes(rate: Rate): number {
  return Math.max(1, Math.floor(rate.rate / 8));
}

/** A burst of a policer in QoS.other_config, in bytes. */
export function burstBytes(rate: Rate): number {
  return Math.floor(burstBits(rate) / 8);
}
