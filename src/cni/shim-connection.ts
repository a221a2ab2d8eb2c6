import type { Socket } from "node:net";
import { describeThrown, Failure } from "../failure/failure.ts";
import type { DelegateCall, DelegateReply } from "../ipam/ipam.ts";
import type { Clock } from "../sync/clock.ts";
import { orAborted } from "../sync/deadlines.ts";
import type { Answer } from "./answer.ts";
import { answerFrame, delegateFrame, parseDelegateReply, parseRequestFrame } from "./frame.ts";
import type { RawRequest } from "./request.ts";
import { WorkDeadline } from "./work-deadline.ts";

/** Time that a caller has for sending its request. */
const REQUEST_MS = 10_000;
/** Time for a plugin; the shim ends one after 60 s itself, and is gone for certain after this. */
const DELEGATE_MS = 70_000;

/** One shim, from its request to the answer (shim/PROTOCOL.md). */
export class ShimConnection {
  readonly #socket: Socket;
  readonly #clock: Clock;
  #bytes = Buffer.alloc(0);
  /** Set when nothing more can come; undefined inside where the peer ended it orderly. */
  #ended: { readonly error: Error | undefined } | undefined;
  #arrived: () => void = () => undefined;
  /** Why no plugin can be asked for any more. */
  #broken: unknown;
  #isDelegating = false;

  constructor(socket: Socket, clock: Clock) {
    this.#socket = socket;
    this.#clock = clock;
    socket.on("data", (chunk) => {
      this.#bytes = Buffer.concat([this.#bytes, chunk]);
      this.#arrived();
    });
    const end = (error?: Error) => {
      this.#ended ??= { error };
      this.#arrived();
    };
    socket.on("error", end);
    socket.on("end", () => end());
    socket.on("close", () => end());
  }

  /** The request, or undefined when the shim ended before it had sent all of it. @throws Failure invalid-request */
  receiveRequest(): Promise<Omit<RawRequest, "delegate"> | undefined> {
    return this.#within(REQUEST_MS, () => this.#receive(parseRequestFrame));
  }

  /**
   * Has the shim run a plugin.
   * @throws Failure `ipam-failed` when its limit is over, `ipam-interrupted` for all else and for each call after either
   */
  async delegate(call: DelegateCall): Promise<DelegateReply> {
    const { limitMs = DELEGATE_MS } = call;
    const isAfterAnother = this.#broken !== undefined;
    try {
      if (isAfterAnother) throw this.#broken;
      this.#isDelegating = true;
      this.#socket.write(delegateFrame(call));
      const reply = await this.#within(limitMs, () => this.#receive(parseDelegateReply));
      if (reply === undefined) throw new Error("the CNI executable ended");
      return reply;
    } catch (thrown) {
      // Its late reply would look like that of the next plugin.
      this.#broken ??= thrown;
      const cause = this.#broken;
      const isTooSlow = !isAfterAnother && limitMs < DELEGATE_MS && isTimeout(cause);
      throw new Failure({
        code: isTooSlow ? "ipam-failed" : "ipam-interrupted",
        what: `IPAM plugin ${call.type} was called with ${call.env["CNI_COMMAND"]}, but its result did not arrive: ${describeThrown(cause)}`,
        where: `container ${call.env["CNI_CONTAINERID"]}, interface ${call.env["CNI_IFNAME"]}`,
        fix: "its addresses are released before the next ADD or with a later request",
        cause,
      });
    } finally {
      this.#isDelegating = false;
    }
  }

  /** Runs no further plugin, and hangs up on one that runs: the shim ends it and repeats its request. */
  endDelegations(): void {
    this.#broken ??= new Error("the daemon is stopping");
    if (this.#isDelegating) this.#socket.destroy();
  }

  /** Sends the answer; resolves when the kernel has it. */
  answer(answer: Answer): Promise<void> {
    return new Promise((resolve) => this.#socket.end(answerFrame(answer), () => resolve()));
  }

  async #receive<Frame>(parse: (bytes: Buffer) => Frame | undefined): Promise<Frame | undefined> {
    for (;;) {
      const frame = parse(this.#bytes);
      if (frame !== undefined) {
        this.#bytes = Buffer.alloc(0);
        return frame;
      }
      if (this.#ended?.error !== undefined) throw this.#ended.error;
      if (this.#ended !== undefined) return undefined;
      const arrival = Promise.withResolvers<void>();
      this.#arrived = arrival.resolve;
      await arrival.promise;
    }
  }

  async #within<Value>(ms: number, work: () => Promise<Value>): Promise<Value> {
    const deadline = new WorkDeadline({ ms, clock: this.#clock });
    return orAborted(work(), deadline.signal).finally(() => deadline.close());
  }
}

function isTimeout(thrown: unknown): boolean {
  return thrown instanceof DOMException && thrown.name === "TimeoutError";
}
