import { Failure } from "../failure/failure.ts";
import { OneAtATime } from "../sync/one-at-a-time.ts";

/** One request's place among those for the same container. */
export interface ContainerTurn {
  readonly containerId: string;
  /** Whose turn it is, where that is not the container's; for messages. */
  readonly where?: string;
  /** What it does, for those who wait for it in vain, for example "ADD of interface net1". */
  readonly what: string;
  /** Ends the wait for the turn. */
  readonly signal: AbortSignal;
}

/** One after the other for each container: CNI verbs and the reconciler, who share this. */
export class ContainerTurns {
  readonly #turns = new OneAtATime();

  /**
   * Runs `task` when it is its turn. Where the signal fires first `tooLate` runs instead, while those behind go on
   * waiting; it is given the Failure `busy`, which it rejects with unless told otherwise.
   */
  run<Value>(
    turn: ContainerTurn,
    task: () => Promise<Value>,
    tooLate: (busy: Failure) => Value | Promise<Value> = (busy) => {
      throw busy;
    },
  ): Promise<Value> {
    const { containerId: key, what, signal } = turn;
    return this.#turns.run({ key, what, signal }, task, (running) => tooLate(busyWith(running, turn)));
  }
}

function busyWith(running: string, { containerId, where, what, signal }: ContainerTurn): Failure {
  return new Failure({
    code: "busy",
    what: `${what} has to wait, and time was up: ${running} is still running`,
    where: where ?? `container ${containerId}`,
    fix: "try again; the daemon's log says what hangs",
    cause: signal.reason,
  });
}
