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

/**
 * Reads one message.
 * @throws Failure dataplane-protocol where it is neither a call nor a reply
 */
export function readMessage(value: unknown): RpcMessage {
  const { method, params, id, result, error } = (value ?? {}) as Readonly<Record<string, unknown>>;
  if (typeof method === "string" && Array.isArray(params)) {
    return { kind: "call", method, params, id: id ?? null };
  }
  if (id !== undefined && result !== undefined && error !== undefined) {
    return { kind: "reply", id, result, error };
  }
  throw new Failure({
    code: "dataplane-protocol",
    what: `the OVSDB server sent a message that is neither call nor reply: ${excerpt(value)}`,
  });
}
