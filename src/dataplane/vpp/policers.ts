import type { Rate } from "../../config/port-settings.ts";
import type { Answered, Asked } from "../../protocols/vpp-api/call.ts";
import type { addPolicer, dumpPolicers } from "../../protocols/vpp-api/messages.ts";
import type { PortRequest } from "../port.ts";
import { burstBytes, rateKilobits } from "../rates.ts";
import { nodeDigest } from "./mark.ts";

/** sse2_qos_policer_type of VPP: one rate with two colours, two rates with three (RFC 2698). */
const ONE_RATE = 0;
const TWO_RATES = 2;
const DROP = { type: 0, dscp: 0 };
const PASS = { type: 1, dscp: 0 };
const NAME = /^kvu1:([0-9a-f]{8}):([^:]{1,15}):(\d+):(in|out)$/;

/** As VPP sees it: `in` is what comes from the guest, `out` what goes to it. */
export type Direction = (typeof DIRECTIONS)[number];
export const DIRECTIONS = ["in", "out"] as const;

/** A policer of VPP as we ask for it. */
export type Policer = Omit<Asked<typeof addPolicer>, "is_add" | "name">;

/** Where a policer's name says that it belongs. */
export interface PolicerPlace {
  readonly node: string;
  readonly port: string;
  /** Interface that it is applied to: VPP does not say which one it is. */
  readonly index: number;
  readonly direction: Direction;
}

/** Name of a port's policer: 45 characters at most. */
export function policerName(node: string, port: string, index: number, direction: Direction): string {
  return `kvu1:${nodeDigest(node)}:${port}:${index}:${direction}`;
}

/** Where a policer belongs; undefined for one that is not ours. */
export function parsePolicerName(name: string): PolicerPlace | undefined {
  const [, node, port, index, direction] = NAME.exec(name) ?? [];
  if (node === undefined || port === undefined || direction === undefined) return undefined;
  return { node, port, index: Number(index), direction: direction === "in" ? "in" : "out" };
}

/** The policers that settings ask for. */
export function policersOf(settings: PortRequest["settings"]): ReadonlyMap<Direction, Policer> {
  const { fromGuest, toGuest } = settings;
  const policers = new Map<Direction, Policer>();
  if (fromGuest !== undefined) policers.set("in", policerOf(fromGuest, undefined));
  if (toGuest !== undefined) policers.set("out", policerOf(toGuest, toGuest.excess));
  return policers;
}

/** What a policer is deleted with: only its name counts. */
export const ANY_POLICER = policerOf({ rate: 0, burst: 0 }, undefined);

/** Whether a policer is as asked; VPP lists the configuration as it was given. */
export function isSamePolicer(found: Answered<typeof dumpPolicers>, asked: Policer): boolean {
  const isSame = (["cir", "eir", "cb", "eb", "type"] as const).every(
    (field) => found[field] === asked[field],
  );
  return isSame && found.exceed_action.type === asked.exceed_action.type;
}

/** VPP's second rate and burst are the peak, with the first ones in it; the network's excess comes on top of them. */
function policerOf(rate: Rate, excess: Rate | undefined): Policer {
  const cir = rateKilobits(rate);
  const cb = BigInt(burstBytes(rate));
  return {
    cir,
    eir: excess === undefined ? 0 : cir + rateKilobits(excess),
    cb,
    eb: excess === undefined ? 0n : cb + BigInt(burstBytes(excess)),
    rate_type: 0,
    round_type: 0,
    type: excess === undefined ? ONE_RATE : TWO_RATES,
    color_aware: false,
    conform_action: PASS,
    exceed_action: excess === undefined ? DROP : PASS,
    violate_action: DROP,
  };
}
