import type { Rate } from "../../config/port-settings.ts";
import { burstBits, rateKilobits } from "../rates.ts";

/** Interface.ingress_policing_rate and _burst, in kbit/s and kbit. */
export function policingColumns(rate: Rate): { readonly rate: number; readonly burst: number } {
  return { rate: rateKilobits(rate), burst: Math.ceil(burstBits(rate) / 1000) };
}

/** A rate of a policer in QoS.other_config: bytes a second, never 0, which it would refuse. */
export function rateBytes(rate: Rate): number {
  return Math.max(1, Math.floor(rate.rate / 8));
}
