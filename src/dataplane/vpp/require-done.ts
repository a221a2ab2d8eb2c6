import { Failure } from "../../failure/failure.ts";
import type { Call } from "../../protocols/vpp-api/call.ts";
import type { VppConnection } from "../../protocols/vpp-api/connection.ts";
import type { Field, Layout, ValuesOf } from "../../protocols/vpp-api/fields.ts";
import { describeRetval } from "../../protocols/vpp-api/retval.ts";

/** An answer that tells whether it was done. */
export type Outcome = Layout & { readonly retval: Field<number> };

/** Something that VPP is to do, for a port. */
export type Order = <Ask extends Layout, Answer extends Outcome>(
  call: Call<Ask, Answer>,
  values: ValuesOf<Ask>,
) => Promise<ValuesOf<Answer>>;

/**
 * Gives orders over a connection that VPP must not refuse.
 * @param where for whom they are
 */
export function orders(connection: VppConnection, where: string, signal: AbortSignal): Order {
  return async (call, values) => {
    const answer = await connection.request(call, values, signal);
    requireDone(Number(answer.retval), `${where}, ${call.variants[0].ask.name}`);
    return answer;
  };
}

/**
 * Makes VPP's refusal an error.
 * @param where what was asked for
 * @throws Failure port-failed
 */
export function requireDone(retval: number, where: string): void {
  if (retval >= 0) return;
  throw new Failure({
    code: "port-failed",
    what: `VPP refused: ${describeRetval(retval)}`,
    where,
    fix: "read VPP's log (vppctl show logging)",
  });
}
