import { NO_BUFFER, PORT } from "./action.ts";
import { encodeMatch, type MatchField, readMatch } from "./match.ts";
import {
  MESSAGE,
  type Message,
  MULTIPART,
  multipartBody,
  multipartRequest,
  pack,
  type Request,
  readerOf,
  request,
} from "./message.ts";

/** One flow of a bridge; table, priority and match make it the same flow. */
export interface Flow {
  readonly table: number;
  /** 0 to 65535; the highest that matches wins. */
  readonly priority: number;
  /** 64 bits that tell whose it is. */
  readonly cookie: bigint;
  readonly match: readonly MatchField[];
  /** As they are on the wire: {@link applyActions}. */
  readonly instructions: Buffer;
}

/** Which flows: those with these bits in their cookie that match no more than `match`. */
export interface FlowFilter {
  readonly cookie: bigint;
  readonly cookieMask: bigint;
  readonly match?: readonly MatchField[];
}

const ALL_BITS = 0xffff_ffff_ffff_ffffn;
const ALL_TABLES = 0xff;
const ANY_GROUP = 0xffffffff;
const COMMAND = { add: 0, delete: 3, deleteStrict: 4 } as const;

/**
 * Adds a flow; one with the same table, priority and match is replaced.
 * @param seconds after which the switch removes it; 0 for never
 */
export function addFlow(flow: Flow, seconds = 0): Request {
  return flowMod({ ...flow, cookieMask: 0n, command: COMMAND.add, seconds });
}

/** Deletes exactly this flow, if its cookie is the same too. */
export function deleteFlow(flow: Flow): Request {
  const instructions = Buffer.alloc(0);
  return flowMod({ ...flow, instructions, cookieMask: ALL_BITS, command: COMMAND.deleteStrict });
}

/** Deletes all flows that a filter selects, in all tables. */
export function deleteFlows({ cookie, cookieMask, match = [] }: FlowFilter): Request {
  const flow = { table: ALL_TABLES, priority: 0, cookie, match, instructions: Buffer.alloc(0) };
  return flowMod({ ...flow, cookieMask, command: COMMAND.delete });
}

function flowMod(
  mod: Flow & { readonly cookieMask: bigint; readonly command: number; readonly seconds?: number },
): Request {
  const { cookie, cookieMask, table, command, priority, match, instructions, seconds = 0 } = mod;
  const of = pack("Q Q B B", cookie, cookieMask, table, command);
  // Without a time-out of idle flows before the other, and without flags at the end.
  const rest = pack("2x H H I I I 4x", seconds, priority, NO_BUFFER, PORT.any, ANY_GROUP);
  return request(MESSAGE.flowMod, Buffer.concat([of, rest, encodeMatch(match), instructions]));
}

/** Asks for the flows that a filter selects; {@link readFlows} reads the answer. */
export function listFlows({ cookie, cookieMask, match = [] }: FlowFilter): Request {
  const head = pack("B 3x I I 4x Q Q", ALL_TABLES, PORT.any, ANY_GROUP, cookie, cookieMask);
  return multipartRequest(MULTIPART.flow, Buffer.concat([head, encodeMatch(match)]));
}

/**
 * The flows in the replies to {@link listFlows}.
 * @throws Failure dataplane-protocol
 */
export function readFlows(replies: readonly Message[]): Flow[] {
  const reader = readerOf(multipartBody(MULTIPART.flow, replies), "list of flows");
  const flows: Flow[] = [];
  while (reader.left > 0) {
    const length = reader.u16();
    const entry = readerOf(reader.take(length - 2), "flow");
    const table = entry.u8();
    entry.take(9); // padding and age
    const priority = entry.u16();
    entry.take(10); // time-outs, flags, importance
    const cookie = entry.u64();
    entry.take(16); // counters
    const match = readMatch(entry);
    flows.push({ table, priority, cookie, match, instructions: entry.take(entry.left) });
  }
  return flows;
}

/** Equal for flows that are the same one to a bridge, in whatever order it lists the fields of their match. */
export function flowKey({ table, priority, match }: Flow): string {
  const fields = match.map(({ header, payload }) => `${header.toString(16)}=${payload.toString("hex")}`);
  return [table, priority, ...fields.sort()].join(" ");
}
