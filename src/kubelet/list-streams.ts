import type { ServerWritableStream } from "@grpc/grpc-js";

/** One open call of a kubelet API whose every message replaces the whole list. */
export type ListStream<Message> = ServerWritableStream<object, Message>;

/** What streams of one list send. */
export interface ListSource<List, Message> {
  /** The list now; one that was sent is not sent again. */
  current(): List;
  toMessage(list: List): Message;
}

/**
 * The open streams of one list: one in steady state, for a moment two after another registration. Each gets the list at
 * once, and again when there is another one.
 */
export class ListStreams<List, Message> {
  readonly #source: ListSource<List, Message>;
  readonly #onLost: () => void;
  readonly #updates = new Map<ListStream<Message>, () => void>();

  /** @param onLost called when the last open stream has ended, and not by {@link ListStreams.endAll} */
  constructor(source: ListSource<List, Message>, onLost: () => void = () => undefined) {
    this.#source = source;
    this.#onLost = onLost;
  }

  /** How many streams are open. */
  get open(): number {
    return this.#updates.size;
  }

  /** Serves one stream until its caller disconnects. */
  serve(stream: ListStream<Message>): void {
    let sent: List | undefined;
    let congested = false;
    const update = () => {
      // A slow reader gets the newest list once it has read, not every list in between.
      if (congested) return;
      const current = this.#source.current();
      if (current === sent) return;
      sent = current;
      congested = !stream.write(this.#source.toMessage(current));
    };
    stream.on("drain", () => {
      congested = false;
      update();
    });
    const ended = () => {
      if (this.#updates.delete(stream) && this.#updates.size === 0) this.#onLost();
    };
    for (const event of ["cancelled", "error", "close"]) stream.on(event, ended);
    this.#updates.set(stream, update);
    if (stream.cancelled) ended();
    else update();
  }

  /** Sends the list again where it changed. */
  refresh(): void {
    for (const update of this.#updates.values()) update();
  }

  /** Ends all streams from our side. */
  endAll(): void {
    const streams = [...this.#updates.keys()];
    this.#updates.clear();
    for (const stream of streams) stream.end();
  }
}
