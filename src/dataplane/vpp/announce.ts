import { describeThrown, Failure } from "../../failure/failure.ts";
import type { VppConnection } from "../../protocols/vpp-api/connection.ts";
import { dumpInterfaces, executeLine } from "../../protocols/vpp-api/messages.ts";
import { dumpUnnumbered } from "../../protocols/vpp-api/routing-messages.ts";
import type { VppContext } from "./context.ts";
import type { FrameInjector } from "./frame-injector.ts";
import type { LinkStates } from "./link-states.ts";
import { isOfNode, parseMark } from "./mark.ts";
import { LINK_UP } from "./port-state.ts";

/** Announces guests, as far as a VPP can. */
export class GuestAnnouncer {
  readonly #context: VppContext;
  readonly #links: LinkStates;
  readonly #injector: FrameInjector;
  /** Connections to a VPP that has said that it cannot. */
  readonly #unfit = new WeakSet<VppConnection>();

  constructor(context: VppContext, links: LinkStates, injector: FrameInjector) {
    this.#context = context;
    this.#links = links;
    this.#injector = injector;
  }

  /**
   * {@link Dataplane.announce}. A routed port needs none: nobody but VPP is on its link, and VPP was told the guest's
   * MAC.
   */
  async announce(name: string, frames: readonly Uint8Array[], signal: AbortSignal): Promise<boolean> {
    const { client, node, logger } = this.#context;
    const sw_if_index = this.#links.indexOf(name);
    if (sw_if_index === undefined) return false;
    const connection = await client.connection(signal);
    if (this.#unfit.has(connection) || !connection.knows(executeLine)) return false;
    const read = async () => {
      const ask = { sw_if_index, name_filter_valid: false, name_filter: "" };
      const [row] = await connection.dump(dumpInterfaces, ask, signal);
      const mark = row === undefined ? undefined : parseMark(row.tag);
      const isThere = mark?.name === name && isOfNode(mark, node) && ((row?.flags ?? 0) & LINK_UP) !== 0;
      return isThere ? row : undefined;
    };
    const [row, routed] = await Promise.all([
      read(),
      connection.dump(dumpUnnumbered, { sw_if_index }, signal),
    ]);
    if (row === undefined || routed.length > 0) return false;
    try {
      await this.#injector.inject(connection, row.interface_name, frames, signal);
      return true;
    } catch (thrown) {
      if (!(thrown instanceof Failure)) throw thrown;
      // Refused for the interface, which went meanwhile.
      if (thrown.code === "port-failed" && (await read()) === undefined) return false;
      if (thrown.code !== "dataplane-misconfigured") throw thrown;
      this.#unfit.add(connection);
      logger.warn(
        { reason: describeThrown(thrown) },
        "this VPP cannot announce guests; the network learns of them by their own frames",
      );
      return false;
    }
  }
}
