import { Failure } from "../../failure/failure.ts";
import { whenAborted } from "../../sync/deadlines.ts";
import { connectOvsdb, type OvsdbConnection } from "./connection.ts";
import { type Operation, readOutcome, type TransactionOutcome } from "./transaction.ts";

/** One database of an OVSDB server, reached over one connection that is made when needed and made anew when lost. */
export interface OvsdbClient {
  /**
   * Runs operations as one transaction. A transaction that the database turns down is an outcome, not an error.
   * @throws Failure dataplane-unavailable (the connection died: it may have been committed or not),
   *   dataplane-timeout when the signal fires (the same), dataplane-protocol
   */
  transact(operations: readonly Operation[], signal: AbortSignal): Promise<TransactionOutcome>;
  /** Ends the connection; what is under way fails. */
  close(): void;
}

/** Opens nothing yet: the first transaction connects. */
export function createOvsdbClient(options: {
  readonly path: string;
  readonly database: string;
  /** Hears of every connection that is made. */
  readonly onConnected?: (() => void) | undefined;
}): OvsdbClient {
  return new Client(options.path, options.database, options.onConnected);
}

class Client implements OvsdbClient {
  readonly #path: string;
  readonly #database: string;
  readonly #onConnected: (() => void) | undefined;
  readonly #closing = new AbortController();
  #connection: Promise<OvsdbConnection> | undefined;

  constructor(path: string, database: string, onConnected: (() => void) | undefined) {
    this.#path = path;
    this.#database = database;
    this.#onConnected = onConnected;
  }

  async transact(operations: readonly Operation[], signal: AbortSignal): Promise<TransactionOutcome> {
    const connection = await this.#connect();
    const answer = await connection.request("transact", [this.#database, ...operations], signal);
    return readOutcome(operations, answer);
  }

  close(): void {
    this.#closing.abort(
      new Failure({ code: "dataplane-unavailable", what: "the connection to the switch was closed by us" }),
    );
    void this.#connection?.then(
      (connection) => connection.close(),
      () => undefined,
    );
  }

  /**
   * All callers share one connection; the first that finds none starts it. No caller's signal reaches it: a
   * connect to a unix socket answers at once, and its failure would be the others' too.
   */
  #connect(): Promise<OvsdbConnection> {
    if (this.#closing.signal.aborted) return Promise.reject(this.#closing.signal.reason);
    if (this.#connection !== undefined) return this.#connection;
    const connecting = connectOvsdb({ path: this.#path }, this.#closing.signal);
    this.#connection = connecting;
    const forget = () => {
      if (this.#connection === connecting) this.#connection = undefined;
    };
    connecting.then((connection) => {
      this.#onConnected?.();
      whenAborted(connection.lost, forget);
    }, forget);
    return connecting;
  }
}
