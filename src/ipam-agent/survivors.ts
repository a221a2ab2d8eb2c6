import { describeThrown } from "../failure/failure.ts";
import type { AgentContext } from "./agent-context.ts";
import type { OwnBlocks } from "./own-blocks.ts";
import { listPodsOfNode, listSurvivors } from "./pods-of-node.ts";

/** Between the two looks at which a survivor must be gone, in milliseconds. */
const SECOND_LOOK_MS = 60_000;

/**
 * Waits for the pods and network namespaces that were on the node when its journal was found to be lost: it is not known which
 * of its addresses they have. When all of them are gone at two looks a minute apart, the blocks of the lost journal are used
 * again.
 */
export class SurvivorWatch {
  readonly #context: AgentContext;
  readonly #own: Pick<OwnBlocks, "takeOverResting">;
  /** By UID or path: when it was first seen to be gone. */
  readonly #goneSinceMs = new Map<string, number>();

  constructor(context: AgentContext, own: Pick<OwnBlocks, "takeOverResting">) {
    this.#context = context;
    this.#own = own;
  }

  /** One look. */
  async look(signal: AbortSignal): Promise<void> {
    const { state, clock } = this.#context;
    const { survivors } = state.identity;
    if (survivors === undefined) return this.#list(signal);
    if (survivors.length === 0) return;
    const pods = await listPodsOfNode(this.#context, signal);
    const there = new Set(pods.map(({ uid }) => uid));
    for (const path of survivors.filter((one) => one.startsWith("/")))
      if (await this.#mayHaveNetns(path)) there.add(path);
    const now = clock.monotonic();
    const left = survivors.filter((one) => {
      if (there.has(one)) this.#goneSinceMs.delete(one);
      else if (!this.#goneSinceMs.has(one)) this.#goneSinceMs.set(one, now);
      return now - (this.#goneSinceMs.get(one) ?? now) < SECOND_LOOK_MS;
    });
    if (left.length < survivors.length) await state.setIdentity({ survivors: left });
    if (left.length === 0) this.#own.takeOverResting();
  }

  /** They could not be listed when the blocks were confirmed. */
  async #list(signal: AbortSignal): Promise<void> {
    const { state } = this.#context;
    if (!state.isConfirmed) return;
    const survivors = await listSurvivors(this.#context, signal);
    await state.setIdentity({ survivors });
    if (survivors.length === 0) this.#own.takeOverResting();
  }

  async #mayHaveNetns(path: string): Promise<boolean> {
    const { hasNetns, logger } = this.#context;
    try {
      return await hasNetns(path);
    } catch (error) {
      logger.debug({ file: path, reason: describeThrown(error) }, "a network namespace cannot be looked for");
      return true;
    }
  }
}
