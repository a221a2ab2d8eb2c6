import { Failure } from "../../failure/failure.ts";
import type { Logger } from "../../logging/logger.ts";
import type { Answered, Call, Dump } from "../../protocols/vpp-api/call.ts";
import type { VppClient, VppConnection } from "../../protocols/vpp-api/connection.ts";
import type { Field, Layout, ValuesOf } from "../../protocols/vpp-api/fields.ts";
import { dumpInterfaces } from "../../protocols/vpp-api/messages.ts";
import { describeRetval } from "../../protocols/vpp-api/retval.ts";
import type { KeyedMutex } from "../../sync/keyed-mutex.ts";
import type { PortOwner } from "../port.ts";

/** An answer that says whether it was done. */
type Outcome = Layout & { readonly retval: Field<number> };

/** Has VPP do something that it must not refuse. */
export type Order = <Ask extends Layout, Answer extends Outcome>(
  call: Call<Ask, Answer>,
  values: ValuesOf<Ask>,
) => Promise<ValuesOf<Answer>>;

/** Requests over one connection under one deadline; errors are those of {@link VppConnection}. */
export class VppRequests {
  readonly connection: VppConnection;
  readonly signal: AbortSignal;

  constructor(connection: VppConnection, signal: AbortSignal) {
    this.connection = connection;
    this.signal = signal;
  }

  request<Ask extends Layout, Answer extends Layout>(
    call: Call<Ask, Answer>,
    values: ValuesOf<Ask>,
  ): Promise<ValuesOf<Answer>> {
    return this.connection.request(call, values, this.signal);
  }

  dump<Ask extends Layout, Answer extends Layout>(
    dump: Dump<Ask, Answer>,
    values: ValuesOf<Ask>,
  ): Promise<readonly ValuesOf<Answer>[]> {
    return this.connection.dump(dump, values, this.signal);
  }

  /** The interface of this number; undefined where there is no such. */
  async interface(sw_if_index: number): Promise<Answered<typeof dumpInterfaces> | undefined> {
    const [row] = await this.dump(dumpInterfaces, { sw_if_index, name_filter_valid: false, name_filter: "" });
    return row;
  }

  /** @param where what the orders are for, for failures */
  orders(where: string): Order {
    return async (call, values) => {
      const answer = await this.request(call, values);
      requireDone(Number(answer.retval), `${where}, ${call.ask.name}`);
      return answer;
    };
  }
}

/** What every verb works with. */
export interface VppContext {
  readonly client: VppClient;
  /** This node's name; a digest of it is part of the mark on every port. */
  readonly node: string;
  /** Owners for which a port of this name was ever asked and is not given up: VPP keeps digests of them only. */
  readonly ownersOf: (port: string) => readonly PortOwner[];
  /** Held while the loopbacks with gateways change, which many routed ports share. */
  readonly gateways: KeyedMutex;
  /** Where sysfs is mounted. */
  readonly sysfs: string;
  readonly logger: Logger;
}

/** One verb at work. It keeps to one connection: with the next one VPP may have restarted. */
export class VppWork extends VppRequests {
  readonly context: VppContext;

  constructor(context: VppContext, connection: VppConnection, signal: AbortSignal) {
    super(connection, signal);
    this.context = context;
  }
}

/** @throws Failure as {@link VppClient} */
export async function startWork(context: VppContext, signal: AbortSignal): Promise<VppWork> {
  return new VppWork(context, await context.client.connection(signal), signal);
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

/** Waits until all are over, so that undoing them comes after all of them; then throws what the first threw. */
export async function allDone(works: readonly (Promise<unknown> | undefined)[]): Promise<void> {
  for (const outcome of await Promise.allSettled(works)) {
    if (outcome.status === "rejected") throw outcome.reason;
  }
}
