import type { Rate } from "../config/port-settings.ts";

/** Open vSwitch's own burst for what a guest sends where 0 is given; it means the same with every switch. */
const DEFAULT_BURST_BITS = 8_000_000;

/** Bits that may pass at once: 0 means the default in both directions. */
export function burstBits(rate: Rate): number {
  return rate.burst === 0 ? DEFAULT_BURST_BITS : rate.burst;
}

/** The same in whole bytes. */
export function burstBytes(rate: Rate): number {
  return Math.floor(burstBits(rate) / 8);
}

/** The same in kbit, rounded up. */
export function burstKilobits(rate: Rate): number {
  return Math.ceil(burstBits(rate) / 1000);
}

/** A rate in kbit/s, rounded up: 0 would mean "no limit" to Open vSwitch, and VPP refuses it. */
export function rateKilobits(rate: Rate): number {
  return Math.ceil(rate.rate / 1000);
}
