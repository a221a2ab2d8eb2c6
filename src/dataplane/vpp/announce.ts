import { Failure } from "../../failure/failure.ts";
import type { VppConnection } from "../../protocols/vpp-api/connection.ts";
import { executeLine } from "../../protocols/vpp-api/messages.ts";
import { dumpUnnumbered } from "../../protocols/vpp-api/routing-messages.ts";
import { type Clock, systemClock } from "../../sync/clock.ts";
import { lackingMessage, whyNotOffered } from "./offers.ts";
import { startWork, type VppContext, VppRequests } from "./requests.ts";
import { LINK_UP, readPortInterface } from "./view.ts";
import type { LinkStates } from "./watch-links.ts";

/**
 * Number of the interface that VPP's packet generator makes for itself with a first stream; frames do not pass it.
 * It stays: VPP's tables of such interfaces are not in order any more once one is deleted.
 */
const GENERATOR = 26_486;
/** Streams of ours by their names. */
const STREAM = /^kvu-\d+-\d+$/;
const SHOW = "show packet-generator";
/** VPP sends a frame in its next round; one that is stuck is given up, and its stream deleted. */
const LOOKS = 40;
const LOOK_MS = 5;
const UNDO_MS = 2_000;
/** What VPP says of a command that it does not have; one that it has puts its own name before what it refuses. */
const UNKNOWN = /^unknown input/;

/** Connections to a VPP that cannot announce guests. */
const unable = new WeakSet<VppConnection>();

/** {@link Dataplane.announce}. A routed port needs none: only VPP is on its link, and it has the guest's MAC. */
export async function announce(
  context: VppContext,
  { links, injector }: { readonly links: LinkStates; readonly injector: FrameInjector },
  name: string,
  frames: readonly Uint8Array[],
  signal: AbortSignal,
): Promise<boolean> {
  const sw_if_index = links.indexOf(name);
  if (sw_if_index === undefined) return false;
  const vpp = await startWork(context, signal);
  const giveUp = ({ message: reason }: Failure) => {
    unable.add(vpp.connection);
    context.logger.warn(
      { reason },
      "this VPP cannot announce guests; the network learns of them by their own frames",
    );
    return false;
  };
  if (unable.has(vpp.connection)) return false;
  const why = await whyNotOffered(vpp, "announcements");
  if (why !== undefined) return giveUp(why);
  const read = async () => {
    const row = await readPortInterface(vpp, name, sw_if_index);
    return row !== undefined && (row.flags & LINK_UP) !== 0 ? row : undefined;
  };
  const [row, routed] = await Promise.all([read(), vpp.dump(dumpUnnumbered, { sw_if_index })]);
  if (row === undefined || routed.length > 0) return false;
  try {
    await injector.inject(vpp, row.interface_name, frames);
    return true;
  } catch (thrown) {
    if (!(thrown instanceof Failure)) throw thrown;
    // Refused for the interface, which has gone meanwhile.
    if (thrown.code === "port-failed" && (await read()) === undefined) return false;
    if (thrown.code !== "dataplane-misconfigured") throw thrown;
    return giveUp(thrown);
  }
}

/**
 * Has VPP handle frames as if they had come in by an interface, with VLANs, policers, learning and flooding. VPP has no
 * message for that; its packet generator, which every build has, is controlled by the command line. Each frame is a
 * stream of one packet, which is deleted when it has passed.
 */
export class FrameInjector {
  readonly #clock: Clock;
  readonly #active = new Set<string>();
  #calls = 0;

  constructor(clock: Clock = systemClock) {
    this.#clock = clock;
  }

  /**
   * @param name VPP's name of the interface
   * @throws Failure dataplane-misconfigured where this VPP has no packet generator, port-failed where that refuses,
   *   dataplane-unavailable, dataplane-timeout
   */
  async inject(vpp: VppRequests, name: string, frames: readonly Uint8Array[]): Promise<void> {
    this.#calls += 1;
    const streams = frames.map((frame, at) => ({ stream: `kvu-${this.#calls}-${at}`, frame }));
    const names = streams.map(({ stream }) => stream);
    for (const stream of names) this.#active.add(stream);
    try {
      await Promise.all(streams.map(({ stream, frame }) => execute(vpp, newStream(stream, name, frame))));
      await Promise.all(names.map((stream) => execute(vpp, `packet-generator enable-stream ${stream}`)));
      for (let look = 0; look < LOOKS; look += 1) {
        const isEnabled = parseStreams(await execute(vpp, SHOW));
        if (!names.some((stream) => isEnabled.get(stream))) return;
        await this.#clock.sleep(LOOK_MS, vpp.signal);
      }
      throw new Failure({
        code: "dataplane-timeout",
        what: `VPP's packet generator did not send ${frames.length} frames`,
        where: `interface ${name}`,
        fix: "read VPP's log (vppctl show logging)",
      });
    } finally {
      await removeStreams(vpp, names);
      for (const stream of names) this.#active.delete(stream);
    }
  }

  /** Deletes streams of ours that a daemon that ended in between has left. @returns how many there were */
  async removeStrays(vpp: VppRequests): Promise<number> {
    if (lackingMessage(vpp.connection, "announcements") !== undefined) return 0;
    const { retval, reply } = await vpp.request(executeLine, { cmd: SHOW });
    // A VPP that has no packet generator has no streams either.
    const named = retval < 0 ? [] : [...parseStreams(reply).keys()];
    const strays = named.filter((name) => STREAM.test(name) && !this.#active.has(name));
    await removeStreams(vpp, strays);
    return strays.length;
  }
}

function newStream(stream: string, name: string, frame: Uint8Array): string {
  const size = `size ${frame.length}-${frame.length}`;
  const data = `data { hex 0x${Buffer.from(frame).toString("hex")} }`;
  return `packet-generator new { name ${stream} limit 1 source pg${GENERATOR} interface ${name} node ethernet-input ${size} ${data} }`;
}

/** One that is not there is fine. Also after the caller's deadline. */
async function removeStreams({ connection }: VppRequests, names: readonly string[]): Promise<void> {
  if (connection.lost.aborted) return;
  const vpp = new VppRequests(connection, AbortSignal.timeout(UNDO_MS));
  const lines = names.map((name) => ({ cmd: `packet-generator delete ${name}` }));
  await Promise.allSettled(lines.map((line) => vpp.request(executeLine, line)));
}

/** Whether each stream that there is runs, by its name: the first two columns of the table that VPP prints. */
function parseStreams(table: string): ReadonlyMap<string, boolean> {
  const rows = [...table.matchAll(/^(\S+)\s+(Yes|No)\s/gm)];
  return new Map(rows.map(([, name = "", isEnabled]) => [name, isEnabled === "Yes"]));
}

async function execute(vpp: VppRequests, cmd: string): Promise<string> {
  const { retval, reply } = await vpp.request(executeLine, { cmd });
  if (retval >= 0) return reply;
  const said = reply.trim().split("\n")[0] ?? "";
  const where = cmd.split(" ").slice(0, 3).join(" ");
  throw UNKNOWN.test(said)
    ? new Failure({ code: "dataplane-misconfigured", what: `VPP has no packet generator: ${said}`, where })
    : new Failure({ code: "port-failed", what: `VPP's packet generator refused: ${said}`, where });
}
