import { describeThrown, Failure } from "../../failure/failure.ts";
import type { VppConnection } from "../../protocols/vpp-api/connection.ts";
import { executeLine } from "../../protocols/vpp-api/messages.ts";
import { dumpUnnumbered } from "../../protocols/vpp-api/routing-messages.ts";
import type { FrameInjector } from "./frame-injector.ts";
import type { LinkStates } from "./link-states.ts";
import { isOfNode, parseMark } from "./mark.ts";
import { LINK_UP } from "./port-state.ts";
import { startWork, type VppContext } from "./requests.ts";

/** Announces guests, as far as a VPP can. */
export class GuestAnnouncer {
  readonly #context: VppContext;
  readonly #links: LinkStates;
  readonly #injector: FrameInjector;
  /** Connections to a VPP without a packet generator. */
  readonly #unable = new WeakSet<VppConnection>();

  constructor(context: VppContext, links: LinkStates, injector: FrameInjector) {
    this.#context = context;
    this.#links = links;
    this.#injector = injector;
  }

  /** {@link Dataplane.announce}. A routed port needs none: only VPP is on its link, and it has the guest's MAC. */
  async announce(name: string, frames: readonly Uint8Array[], signal: AbortSignal): Promise<boolean> {
    const { node, logger } = this.#context;
    const sw_if_index = this.#links.indexOf(name);
    if (sw_if_index === undefined) return false;
    const vpp = await startWork(this.#context, signal);
    if (this.#unable.has(vpp.connection) || !vpp.connection.knows(executeLine)) return false;
    const read = async () => {
      const row = await vpp.interface(sw_if_index);
      const mark = row === undefined ? undefined : parseMark(row.tag);
      const isThere = mark?.name === name && isOfNode(mark, node) && ((row?.flags ?? 0) & LINK_UP) !== 0;
      return isThere ? row : undefined;
    };
    const [row, routed] = await Promise.all([read(), vpp.dump(dumpUnnumbered, { sw_if_index })]);
    if (row === undefined || routed.length > 0) return false;
    try {
      await this.#injector.inject(vpp, row.interface_name, frames);
      return true;
    } catch (thrown) {
      if (!(thrown instanceof Failure)) throw thrown;
      // Refused for the interface, which has gone meanwhile.
      if (thrown.code === "port-failed" && (await read()) === undefined) return false;
      if (thrown.code !== "dataplane-misconfigured") throw thrown;
      this.#unable.add(vpp.connection);
      logger.warn(
        { reason: describeThrown(thrown) },
        "this VPP cannot announce guests; the network learns of them by their own frames",
      );
      return false;
    }
  }
}
