import { describeThrown } from "../failure/failure.ts";
import type { AgentContext } from "./agent-context.ts";
import type { Allocation } from "./journal-entries.ts";
import { listPodsOfNode, type NodePod } from "./pods-of-node.ts";
import { allocationFields, allocationLock } from "./request.ts";

/** Between the two looks, in milliseconds. */
const SECOND_LOOK_MS = 60_000;

/**
 * Releases addresses whose DEL never came. An allocation is released when, at two looks a minute apart, its network
 * namespace is gone, and its pod is in no list that was made after the first look, or has a newer sandbox with the same
 * interface. Whatever cannot be known counts as in use.
 */
export class LeakCollector {
  readonly #context: AgentContext;
  /** By allocation: when its network namespace was first seen to be gone. */
  readonly #suspects = new Map<Allocation, number>();
  /** Allocations that were released. */
  collected = 0;

  constructor(context: AgentContext) {
    this.#context = context;
  }

  /** Allocations whose network namespace is gone. */
  get suspects(): number {
    return this.#suspects.size;
  }

  /** When an allocation's network namespace was first seen to be gone, in milliseconds of the monotonic clock. */
  goneSinceMs(allocation: Allocation): number | undefined {
    return this.#suspects.get(allocation);
  }

  /** One look. */
  async look(signal: AbortSignal): Promise<void> {
    const { state, clock } = this.#context;
    const ripe: [key: string, allocation: Allocation][] = [];
    const current = new Set(state.allocations.values());
    for (const allocation of this.#suspects.keys())
      if (!current.has(allocation)) this.#suspects.delete(allocation);
    for (const [key, allocation] of [...state.allocations]) {
      const now = clock.monotonic();
      if (await this.#mayHaveNetns(allocation)) this.#suspects.delete(allocation);
      else if (!this.#suspects.has(allocation)) this.#suspects.set(allocation, now);
      else if (now - (this.#suspects.get(allocation) ?? now) >= SECOND_LOOK_MS) ripe.push([key, allocation]);
    }
    if (ripe.length === 0) return;
    let pods: readonly NodePod[] | undefined;
    for (const [key, allocation] of ripe) {
      if (!isSuperseded(allocation, state.allocations.values())) {
        // Made only now, and so after the first look.
        pods ??= await listPodsOfNode(this.#context, signal);
        if (mayExist(allocation.pod, pods)) continue;
      }
      await this.#release(key, allocation, signal);
    }
  }

  async #mayHaveNetns({ netns }: Allocation): Promise<boolean> {
    const { hasNetns, logger } = this.#context;
    try {
      return await hasNetns(netns);
    } catch (error) {
      logger.debug(
        { file: netns, reason: describeThrown(error) },
        "a network namespace cannot be looked for",
      );
      return true;
    }
  }

  async #release(key: string, allocation: Allocation, signal: AbortSignal): Promise<void> {
    const { state, locks, logger } = this.#context;
    await locks.run(allocationLock(key, "the collection", signal), async () => {
      if (state.allocations.get(key) !== allocation) return;
      await state.release(key);
      this.#suspects.delete(allocation);
      this.collected++;
      logger.warn(
        allocationFields(allocation),
        "addresses of a sandbox that is gone were released, no DEL had come",
      );
    });
  }
}

/** Whether the same interface of the same pod has a newer sandbox. */
export function isSuperseded(
  { pod, network, interfaceName, startedAtMs }: Allocation,
  allocations: Iterable<Allocation>,
): boolean {
  if (pod === undefined) return false;
  return [...allocations].some(
    (other) =>
      other.pod?.uid === pod.uid &&
      other.network === network &&
      other.interfaceName === interfaceName &&
      other.startedAtMs > startedAtMs,
  );
}

/** Whether a pod is on the node, or cannot be told. */
function mayExist(pod: Allocation["pod"], pods: readonly NodePod[]): boolean {
  return pod === undefined || pods.some(({ uid }) => uid === pod.uid);
}
