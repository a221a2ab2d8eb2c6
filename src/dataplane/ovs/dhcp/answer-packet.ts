import type { Logger } from "../../../logging/logger.ts";
import { answerGuest } from "../../../protocols/dhcp/answer-guest.ts";
import type { GuestAddressing } from "../../../protocols/dhcp/guest-addressing.ts";
import { output, PORT, packetOut } from "../../../protocols/openflow/action.ts";
import type { OpenflowConnection } from "../../../protocols/openflow/connection.ts";
import { addFlow } from "../../../protocols/openflow/flow.ts";
import type { Request } from "../../../protocols/openflow/message.ts";
import type { PacketIn } from "../../../protocols/openflow/subscription.ts";
import type { Clock } from "../../../sync/clock.ts";
import { within } from "../../../sync/deadlines.ts";
import { portCookie, type SecuredPort } from "../security/rules.ts";
import { pauseFlows } from "./flows.ts";

/** Milliseconds for one answer. */
const LIMIT_MS = 2_000;

/** Requests that a guest may send at once, and milliseconds after which it may send another. A boot takes about six. */
const BURST = 20;
const REFILL_MS = 500;
/** Seconds without answers for a guest that sends more. */
const PAUSE_SECONDS = 10;

/** How much a guest may still ask. */
class Budget {
  #left = BURST;
  /** Milliseconds of the monotonic clock. */
  #at: number;
  #pausedUntil = Number.NEGATIVE_INFINITY;

  constructor(nowMs: number) {
    this.#at = nowMs;
  }

  /** Counts a request: answer it, drop it, or have the switch drop all for a while. */
  take(nowMs: number): "answer" | "drop" | "pause" {
    this.#left = Math.min(BURST, this.#left + (nowMs - this.#at) / REFILL_MS);
    this.#at = nowMs;
    if (nowMs < this.#pausedUntil) return "drop";
    if (this.#left < 1) {
      this.#pausedUntil = nowMs + PAUSE_SECONDS * 1000;
      return "pause";
    }
    this.#left -= 1;
    return "answer";
  }
}

/** Learns what became of a guest's request; `ignored` is one that needs no answer, or cannot be read. */
export type OnGuestRequest = (outcome: "answered" | "ignored" | "dropped") => void;

/** A bridge as packets find it. */
interface AnsweredBridge {
  readonly name: string;
  readonly ports: ReadonlyMap<string, SecuredPort>;
  readonly connection: OpenflowConnection | undefined;
}

/** What guests are answered with. */
export interface DhcpAnswersOptions {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly closing: AbortSignal;
  /** Called for every request that reaches this process. */
  readonly onRequest?: OnGuestRequest | undefined;
}

/** Answers guests on their own ports, as often as each may ask. */
export class DhcpAnswers {
  readonly #options: DhcpAnswersOptions;
  /** By the cookie of a port's flows. */
  readonly #budgets = new Map<bigint, Budget>();

  constructor(options: DhcpAnswersOptions) {
    this.#options = options;
  }

  /** Returns at once; a guest asks again where an answer is lost. */
  answer({ name: bridge, ports, connection }: AnsweredBridge, packet: PacketIn): void {
    const { clock, logger, closing, onRequest } = this.#options;
    const port = [...ports.values()].find(({ name }) => portCookie(name) === packet.cookie);
    if (port?.dhcp === undefined || connection === undefined) return;
    const nowMs = clock.monotonic();
    const budget = this.#budgets.get(packet.cookie) ?? new Budget(nowMs);
    this.#budgets.set(packet.cookie, budget);
    const verdict = budget.take(nowMs);
    const fields = { bridge, port: port.name };
    if (verdict === "pause")
      logger.warn(fields, "a guest asks for addresses too often, its requests are dropped for a while");
    const requests = answerPacket(packet, port.dhcp, verdict);
    onRequest?.(verdict !== "answer" ? "dropped" : requests.length > 0 ? "answered" : "ignored");
    if (requests.length === 0) return;
    connection
      .exchange(requests, within(closing, LIMIT_MS))
      .catch((err: unknown) =>
        logger.debug({ ...fields, err }, "could not answer a guest's request for addresses"),
      );
  }

  /** The port is gone. */
  forget(port: string): void {
    this.#budgets.delete(portCookie(port));
  }
}

/** What the switch is sent for a packet of a guest's: an answer on the port that it came from, a pause, or nothing. */
function answerPacket(
  { inPort, frame }: PacketIn,
  guest: GuestAddressing,
  verdict: ReturnType<Budget["take"]>,
): readonly Request[] {
  if (verdict === "drop") return [];
  if (verdict === "pause") return pauseFlows(inPort, guest).map((flow) => addFlow(flow, PAUSE_SECONDS));
  const answer = answerGuest(frame, guest);
  // Straight to the guest's port: neither the bridge's flows nor its MAC table see the answer.
  const actions = [output(inPort)];
  return answer === undefined ? [] : [packetOut({ inPort: PORT.controller, actions, frame: answer })];
}
