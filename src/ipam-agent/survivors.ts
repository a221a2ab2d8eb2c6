import type { AgentContext } from "./agent-context.ts";
import type { OwnBlocks } from "./own-blocks.ts";
import { listPodsOfNode } from "./pods-of-node.ts";

/** Between the two looks at which a pod must be gone, in milliseconds. */
const SECOND_LOOK_MS = 60_000;

/**
 * Waits for the pods that were on the node when its journal was found to be lost: it is not known which of its addresses they have.
 * When all of them are gone at two looks a minute apart, the blocks of the lost journal are used again.
 */
export class SurvivorWatch {
  readonly #context: AgentContext;
  readonly #own: Pick<OwnBlocks, "takeOverResting">;
  /** By UID: when a pod was first seen to be gone. */
  readonly #goneSinceMs = new Map<string, number>();

  constructor(context: AgentContext, own: Pick<OwnBlocks, "takeOverResting">) {
    this.#context = context;
    this.#own = own;
  }

  /** One look. */
  async look(signal: AbortSignal): Promise<void> {
    const { state, clock } = this.#context;
    const { survivors } = state.identity;
    if (survivors === undefined || survivors.length === 0) return;
    const there = new Set((await listPodsOfNode(this.#context, signal)).map(({ uid }) => uid));
    const now = clock.monotonic();
    const left = survivors.filter((uid) => {
      if (there.has(uid)) this.#goneSinceMs.delete(uid);
      else if (!this.#goneSinceMs.has(uid)) this.#goneSinceMs.set(uid, now);
      return now - (this.#goneSinceMs.get(uid) ?? now) < SECOND_LOOK_MS;
    });
    if (left.length < survivors.length) await state.setIdentity({ survivors: left });
    if (left.length === 0) this.#own.takeOverResting();
  }
}
