import { join } from "node:path";
import { Failure } from "../../failure/failure.ts";
import { checkUnixPath } from "../../names/unix-path.ts";
import { type Peer, Session } from "../session.ts";
import {
  type Connection,
  type SharedConnection,
  type SharedConnectionOptions,
  shareConnection,
} from "../shared-connection.ts";
import {
  encodeHello,
  encodeMessage,
  MESSAGE,
  type Message,
  negotiate,
  openflowMessages,
  protocolFailure,
  type Request,
  readError,
  request,
  type Version,
} from "./message.ts";
import { type BridgePort, readPortStatus } from "./port.ts";
import { type PacketIn, readPacketIn, subscribe } from "./subscription.ts";

/** Most that the replies to requests may have; ten thousand flows of ours have about 2 MiB. */
const MAX_REPLY_BYTES = 6 * 1024 * 1024;

/**
 * The management socket of a bridge, which ovs-vswitchd makes for every bridge (ovs-vswitchd.conf.db(5), Controller).
 * @throws Failure invalid-request for a name that no bridge has, path-too-long
 */
export function bridgeSocket(runDirectory: string, bridge: string): string {
  if (bridge === "" || bridge.includes("/")) {
    throw new Failure({
      code: "invalid-request",
      what: `${JSON.stringify(bridge)} is not the name of a bridge`,
      fix: "Open vSwitch allows no slash in the name of a bridge",
    });
  }
  return checkUnixPath(join(runDirectory, `${bridge}.mgmt`), `OpenFlow socket of bridge ${bridge}`);
}

/** Where the bridge listens and what it reports. */
export interface OpenflowConnectionOptions {
  /** The bridge's management socket: {@link bridgeSocket}. */
  readonly path: string;
  /** Called with ports that came or went. */
  readonly onPort?: ((port: BridgePort) => void) | undefined;
  /** Called with packets that flows send to this program; only beside `onPort`. */
  readonly onPacket?: ((packet: PacketIn) => void) | undefined;
}

/** One connection to a bridge. Once it is lost it stays lost: {@link OpenflowClient} makes the next. */
export interface OpenflowConnection extends Connection {
  /**
   * Sends requests, waits until the switch has done them all, and gives the replies to each.
   * @throws Failure the first one's that the switch refused (the others were done), else as {@link Session.request}
   */
  exchange(requests: readonly Request[], signal: AbortSignal): Promise<readonly (readonly Message[])[]>;
}

/** One bridge, reached over one connection that is made when needed. */
export type OpenflowClient = SharedConnection<OpenflowConnection>;

/** Opens nothing yet: the first caller connects. */
export function createOpenflowClient(
  options: OpenflowConnectionOptions & Omit<SharedConnectionOptions<OpenflowConnection>, "peer" | "connect">,
): OpenflowClient {
  const connect = (signal: AbortSignal) => connectOpenflow(options, signal);
  return shareConnection({ ...options, peer: peerOf(options.path), connect });
}

/**
 * Connects to a bridge and agrees on a version.
 * @throws Failure dataplane-unavailable where nothing answers, dataplane-misconfigured where there is no common version,
 *   dataplane-timeout when the signal fires, dataplane-protocol
 */
export async function connectOpenflow(
  { path, onPort, onPacket }: OpenflowConnectionOptions,
  signal: AbortSignal,
): Promise<OpenflowConnection> {
  const greeted = Promise.withResolvers<Version>();
  let version: Version | undefined;
  const session: Session<Message> = new Session<Message>({
    peer: peerOf(path),
    stream: openflowMessages(),
    maxHeldBytes: MAX_REPLY_BYTES,
    onMessage: (message) => {
      if (message.type === MESSAGE.echoRequest) {
        session.send(encodeMessage(message.version, MESSAGE.echoReply, message.xid, message.body));
      } else if (version === undefined) {
        version = negotiate(message);
        greeted.resolve(version);
      } else if (message.version !== version) {
        throw message.type === MESSAGE.error
          ? readError(message.body)
          : protocolFailure(`it changed its version from ${version} to ${message.version}`);
      } else if (message.type === MESSAGE.portStatus) {
        onPort?.(readPortStatus(message));
      } else if (message.type === MESSAGE.packetIn) {
        onPacket?.(readPacketIn(message));
      } else {
        session.reply(message.xid, message, message.body.length);
      }
    },
  });
  session.send(encodeHello());
  const agreed = await session.start(greeted.promise, "hello", signal);
  if (onPort !== undefined) {
    const subscribed = exchange(session, agreed, subscribe, signal);
    await session.start(subscribed, "a subscription to ports and packets", signal);
  }
  return {
    lost: session.lost,
    close: () => session.close(),
    exchange: (requests, exchangeSignal) => exchange(session, agreed, requests, exchangeSignal),
  };
}

/** The answer to a barrier behind the requests is the last: the switch has done them all then. */
async function exchange(
  session: Session<Message>,
  version: Version,
  requests: readonly Request[],
  signal: AbortSignal,
): Promise<readonly (readonly Message[])[]> {
  const replies = new Map<number, Message[]>();
  let refused: Failure | undefined;
  const encode = (nextId: () => number): Buffer => {
    const parts = requests.map((each) => {
      const xid = nextId();
      replies.set(xid, []);
      return each(version, xid);
    });
    return Buffer.concat([...parts, request(MESSAGE.barrierRequest)(version, nextId())]);
  };
  const onReply = (xid: number, message: Message, done: (value: undefined) => void) => {
    const known = replies.get(xid);
    if (message.type === MESSAGE.error) refused ??= readError(message.body);
    else known?.push({ ...message, body: ownCopy(message.body) });
    if (known === undefined) done(undefined);
  };
  await session.request({ what: "OpenFlow requests", encode, onReply }, signal);
  if (refused !== undefined) throw refused;
  return [...replies.values()];
}

/** A view would keep the whole chunk that it came in, and a copy in Node's pool what lies beside it there. */
function ownCopy(view: Buffer): Buffer {
  const copy = Buffer.alloc(view.length);
  view.copy(copy);
  return copy;
}

function peerOf(path: string): Peer {
  return {
    path,
    name: "the bridge",
    whenUnreachable:
      "check that ovs-vswitchd runs, that the bridge exists and that its run directory is mounted into this pod",
    whenSilent: "check that ovs-vswitchd is not overloaded or stopped",
  };
}
