import { z } from "zod";
import { Failure } from "../../failure/failure.ts";

/** A message of JSON-RPC 1.0, by what it is to us. */
export type RpcMessage =
  | { readonly kind: "reply"; readonly id: unknown; readonly result: unknown; readonly error: unknown }
  | {
      readonly kind: "call";
      readonly method: string;
      readonly params: readonly unknown[];
      /** null for a notification, which wants no answer. */
      readonly id: unknown;
    };

/** The beginning of a value that came from outside, for an error text. */
export function excerpt(value: unknown): string {
  return String(JSON.stringify(value)).slice(0, 200);
}

const callShape = z.object({ method: z.string(), params: z.array(z.unknown()), id: z.unknown() });
const replyShape = z.object({ result: z.unknown(), error: z.unknown(), id: z.unknown() });

/**
 * Reads one message.
 * @throws Failure dataplane-protocol where it is neither a call nor a reply
 */
export function readMessage(value: unknown): RpcMessage {
  const call = callShape.safeParse(value);
  if (call.success) {
    return { kind: "call", method: call.data.method, params: call.data.params, id: call.data.id ?? null };
  }
  const reply = replyShape.safeParse(value);
  if (reply.success && typeof value === "object" && value !== null && "id" in value) {
    return { kind: "reply", id: reply.data.id, result: reply.data.result, error: reply.data.error ?? null };
  }
  throw new Failure({
    code: "dataplane-protocol",
    what: `the OVSDB server sent a message that is neither call nor reply: ${excerpt(value)}`,
  });
}
