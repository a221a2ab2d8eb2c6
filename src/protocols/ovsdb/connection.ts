import { Failure } from "../../failure/failure.ts";
import type { Logger } from "../../logging/logger.ts";
import { type Peer, Session } from "../session.ts";
import { type Connection, shareConnection } from "../shared-connection.ts";
import { JsonStream } from "./json-stream.ts";
import { type RpcMessage, readMessage } from "./message.ts";
import { type Operation, readOutcome, type TransactionOutcome } from "./transaction.ts";

/** One connection to an OVSDB server. Once it is lost it stays lost: {@link OvsdbClient} makes the next. */
export interface OvsdbConnection extends Connection {
  /**
   * Calls a method and gives its result.
   * @throws Failure as {@link Session.request}; dataplane-protocol also where the server refuses the call
   */
  request(method: string, params: readonly unknown[], signal: AbortSignal): Promise<unknown>;
}

type Reply = Extract<RpcMessage, { kind: "reply" }>;

const peerOf = (path: string): Peer => ({
  path,
  name: "the switch's database",
  whenUnreachable: "check that ovsdb-server runs and that its socket is mounted into this pod",
  whenSilent: "check that ovsdb-server is not overloaded or stopped",
});

/**
 * Connects to ovsdb-server.
 * @param path of its unix socket
 * @param onNotification called with notifications of the server, such as the `update` of a monitor
 * @throws Failure dataplane-unavailable where nothing answers, dataplane-timeout when the signal fires
 */
export async function connectOvsdb(
  path: string,
  signal: AbortSignal,
  onNotification?: (method: string, params: readonly unknown[]) => void,
): Promise<OvsdbConnection> {
  const session = new Session<unknown, Reply>({
    peer: peerOf(path),
    stream: new JsonStream(),
    maxHeldBytes: 0, // every call has one reply, so none is held
    onMessage: (value) => {
      const message = readMessage(value);
      if (message.kind === "reply") {
        if (typeof message.id === "number") session.reply(message.id, message, 0);
      } else if (message.method === "echo") {
        send({ result: message.params, error: null, id: message.id });
      } else if (message.id === null) {
        onNotification?.(message.method, message.params);
      } else {
        send({ result: null, error: "unknown method", id: message.id });
      }
    },
  });
  const send = (message: object) => session.send(encode(message));
  await session.start(session.connected, "connect", signal);
  return {
    lost: session.lost,
    close: () => session.close(),
    request: async (method, params, requestSignal) => {
      let id = 0;
      const encodeCall = (nextId: () => number) => {
        id = nextId();
        return encode({ method, params, id });
      };
      const onReply = (_: number, reply: Reply, done: (reply: Reply) => void) => done(reply);
      try {
        const exchange = { what: method, encode: encodeCall, onReply };
        const { error, result } = await session.request(exchange, requestSignal);
        if (error === null) return result;
        throw new Failure({
          code: "dataplane-protocol",
          what: `the switch's database refused ${method}: ${JSON.stringify(error)}`,
          where: path,
        });
      } catch (failure) {
        if (method === "transact" && id > 0 && requestSignal.aborted) {
          send({ method: "cancel", params: [id], id: null });
        }
        throw failure;
      }
    },
  };
}

/** One database of an OVSDB server, reached over one connection that is made when needed. */
export interface OvsdbClient {
  /**
   * Runs operations as one transaction. A transaction that the database turns down is an outcome, not an error.
   * @throws Failure dataplane-unavailable (the connection was lost: it may have been committed or not),
   *   dataplane-timeout when the signal fires (likewise), dataplane-protocol
   */
  transact(operations: readonly Operation[], signal: AbortSignal): Promise<TransactionOutcome>;
  /** Ends the connection; what is under way fails. */
  close(): void;
}

/** Opens nothing yet: the first transaction connects. */
export function createOvsdbClient(options: {
  readonly path: string;
  readonly database: string;
  readonly logger: Logger;
  /** Called for every connection that is made. */
  readonly onConnected?: (() => void) | undefined;
}): OvsdbClient {
  const { path, database, logger, onConnected } = options;
  const connect = (signal: AbortSignal) => connectOvsdb(path, signal);
  const shared = shareConnection({ peer: peerOf(path), connect, logger, onConnected: () => onConnected?.() });
  return {
    transact: async (operations, signal) => {
      const connection = await shared.connection(signal);
      return readOutcome(operations, await connection.request("transact", [database, ...operations], signal));
    },
    close: () => shared.close(),
  };
}

const encode = (message: object): Buffer => Buffer.from(JSON.stringify(message));
