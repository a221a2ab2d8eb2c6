import { Failure } from "../../failure/failure.ts";
import type { Logger } from "../../logging/logger.ts";
import type { Clock } from "../../sync/clock.ts";
import { type Peer, Session } from "../session.ts";
import { type Connection, RETRY_MS, type SharedConnection, shareConnection } from "../shared-connection.ts";
import type { Call, Dump, Shape } from "./call.ts";
import type { Layout, ValuesOf } from "./fields.ts";
import {
  broken,
  decodeAnswer,
  decodeHeader,
  encodeHello,
  encodeRequest,
  readWelcome,
  vppFrames,
} from "./frame.ts";
import { MessageTable } from "./message-table.ts";
import { controlPing, showVersion } from "./messages.ts";

/** Longest message that is accepted; the table of all plugins' messages is about 400 KiB. */
const MAX_MESSAGE_BYTES = 2 * 1024 * 1024;
/** Most memory for the details of unfinished dumps: some 9,000 interfaces. */
const MAX_DETAIL_BYTES = 26 * 1024 * 1024;
/** A detail needs so many times its bytes once it is decoded (measured; lists of small groups need most). */
const DECODED_FACTOR = 8;
const CLIENT_NAME = "kube-vhostuser";

/**
 * VPP, reached over one connection that is made with the first call and kept from then on: VPP has forgotten everything
 * when it comes back, and `onConnected` must be called. A piece of work keeps to one connection, for with the next one VPP
 * may have restarted.
 */
export type VppClient = SharedConnection<VppConnection>;

/** Opens nothing yet: the first call connects. */
export function createVppClient(options: {
  /** Path of VPP's API socket, `/run/vpp/api.sock` in the usual packages. */
  readonly path: string;
  readonly logger: Logger;
  /** Called for every connection that is made. */
  readonly onConnected?: ((connection: VppConnection) => void) | undefined;
  readonly clock?: Clock;
}): VppClient {
  const { path, logger, onConnected, clock } = options;
  const connect = (signal: AbortSignal) => connectVpp({ path }, signal);
  return shareConnection({
    peer: peerOf(path),
    connect,
    logger,
    onConnected,
    clock,
    retryMs: () => RETRY_MS,
  });
}

/**
 * Connects to VPP and learns its messages.
 * @throws Failure dataplane-unavailable where nothing answers, dataplane-timeout when the signal fires,
 *   dataplane-protocol where it is not VPP that answers
 */
export async function connectVpp(
  { path }: { readonly path: string },
  signal: AbortSignal,
): Promise<VppConnection> {
  const greeted = Promise.withResolvers<VppConnection>();
  let connection: VppConnection | undefined;
  const session: Session<Buffer> = new Session<Buffer>({
    peer: peerOf(path),
    stream: vppFrames(MAX_MESSAGE_BYTES),
    maxHeldBytes: MAX_DETAIL_BYTES,
    onMessage: (message) => {
      if (connection !== undefined) return connection.receive(message);
      const { index, message_table } = readWelcome(message);
      connection = new VppConnection(session, index, new MessageTable(message_table));
      greeted.resolve(connection);
    },
  });
  session.send(encodeHello(CLIENT_NAME));
  return session.start(greeted.promise, "sockclnt_create", signal);
}

/**
 * One connection to VPP. Once it is lost it stays lost, and nothing that was learnt over it (interface indices,
 * message numbers) has a meaning any more. Requests of one round of the event loop go out in one write, and VPP
 * handles them in their order: it either gets all of them or, where it dies before, forgets everything anyway.
 */
export class VppConnection implements Connection {
  readonly #session: Session<Buffer>;
  readonly #clientIndex: number;
  readonly #table: MessageTable;
  readonly #listeners = new Map<number, (message: Buffer) => void>();

  constructor(session: Session<Buffer>, clientIndex: number, table: MessageTable) {
    this.#session = session;
    this.#clientIndex = clientIndex;
    this.#table = table;
  }

  /** Handles what VPP sent. @throws Failure dataplane-protocol */
  receive(message: Buffer): void {
    const { id, context } = decodeHeader(message);
    const listener = this.#listeners.get(id);
    if (listener !== undefined) listener(message);
    else this.#session.reply(context, message, DECODED_FACTOR * message.length);
  }

  get lost(): AbortSignal {
    return this.#session.lost;
  }

  /**
   * Asks for one thing. A negative `retval` is an answer, not an error.
   * @throws Failure as {@link Session.request}; dataplane-misconfigured where this VPP lacks the message,
   *   invalid-request for a value that does not fit
   */
  async request<Ask extends Layout, Answer extends Layout>(
    call: Call<Ask, Answer>,
    values: ValuesOf<Ask>,
    signal: AbortSignal,
  ): Promise<ValuesOf<Answer>> {
    const { ask, answer } = call;
    const exchange = {
      what: ask.name,
      encode: (nextId: () => number) => this.#encode(call, values, nextId()),
      onReply: (_: number, message: Buffer, done: (value: ValuesOf<Answer>) => void) => {
        this.#requireAnswer(message, call);
        done(decodeAnswer(answer, message));
      },
    };
    return this.#session.request(exchange, signal);
  }

  /** Asks for all details of a kind; fails like {@link VppConnection.request}. */
  async dump<Ask extends Layout, Answer extends Layout>(
    dump: Dump<Ask, Answer>,
    values: ValuesOf<Ask>,
    signal: AbortSignal,
  ): Promise<readonly ValuesOf<Answer>[]> {
    const { ask, answer } = dump;
    const found: ValuesOf<Answer>[] = [];
    let details = 0;
    const exchange = {
      what: ask.name,
      // VPP works in order, so what comes after the answer to this ping is not of the dump.
      encode: (nextId: () => number) => {
        details = nextId();
        return Buffer.concat([this.#encode(dump, values, details), this.#encode(controlPing, {}, nextId())]);
      },
      onReply: (context: number, message: Buffer, done: (value: typeof found) => void) => {
        this.#requireAnswer(message, context === details ? dump : controlPing);
        if (context === details) found.push(decodeAnswer(answer, message));
        else done(found);
      },
    };
    return this.#session.request(exchange, signal);
  }

  /** The first message of these calls that this VPP lacks or has in another form, as a Failure; undefined for none. */
  whyLacking(calls: readonly Call<Layout, Layout>[]): Failure | undefined {
    try {
      for (const call of calls) this.#table.resolve(call);
      return undefined;
    } catch (thrown) {
      if (thrown instanceof Failure) return thrown;
      throw thrown;
    }
  }

  /** VPP's own release, such as `26.06-release`. @throws Failure like {@link VppConnection.request} */
  async version(signal: AbortSignal): Promise<string> {
    return (await this.request(showVersion, {}, signal)).version;
  }

  /** Calls `listener` for every event from now on; VPP must have been asked to send it. A VPP that lacks it never sends it. */
  on<Of extends Layout>(event: Shape<Of>, listener: (values: ValuesOf<Of>) => void): void {
    const id = this.#table.idOf(event);
    if (id !== undefined) this.#listeners.set(id, (message) => listener(decodeAnswer(event, message)));
  }

  close(): void {
    this.#session.close();
  }

  #encode<Ask extends Layout>(call: Call<Ask, Layout>, values: ValuesOf<Ask>, context: number): Buffer {
    const header = { id: this.#table.resolve(call).ask, client_index: this.#clientIndex, context };
    return encodeRequest(call.ask, header, values);
  }

  #requireAnswer(message: Buffer, call: Call<Layout, Layout>): void {
    const { id } = decodeHeader(message);
    if (id === this.#table.resolve(call).answer) return;
    throw broken(`message ${id} where ${call.answer.name} was to come`);
  }
}

function peerOf(path: string): Peer {
  return {
    path,
    name: "VPP",
    whenUnreachable: "check that VPP runs and that its API socket is mounted into this pod",
    whenSilent: "check that VPP's main thread is not stuck",
  };
}
