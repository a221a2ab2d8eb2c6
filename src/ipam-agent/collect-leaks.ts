import { describeThrown } from "../failure/failure.ts";
import type { AgentContext } from "./agent-context.ts";
import type { Allocation } from "./journal-entries.ts";
import { listPodsOfNode, type NodePod } from "./pods-of-node.ts";
import { allocationFields, allocationLock, podInterface } from "./request.ts";

/** Between the two looks, in milliseconds. */
const SECOND_LOOK_MS = 60_000;

/**
 * Releases addresses whose DEL never came. An allocation is released when, at two looks a minute apart, its network
 * namespace is gone, and its pod is in no list that was made after the first look, or a newer sandbox of it has asked for
 * the same interface. Whatever cannot be known counts as in use.
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
    this.#forgetAdds();
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
      if (!this.isSuperseded(allocation)) {
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

  /** Whether a newer sandbox of the pod has asked for the same interface, also where it got no address. */
  isSuperseded(allocation: Allocation): boolean {
    const { state, newestAdds } = this.#context;
    const { pod, network, interfaceName, startedAtMs } = allocation;
    const newest = pod && newestAdds.get(podInterface(pod, network, interfaceName));
    if (newest !== undefined && newest > startedAtMs) return true;
    // An agent that was restarted knows of those that got one.
    return [...state.allocations.values()].some(
      (other) =>
        pod !== undefined &&
        other.pod?.uid === pod.uid &&
        other.network === network &&
        other.interfaceName === interfaceName &&
        other.startedAtMs > startedAtMs,
    );
  }

  /** Forgets pods that have no addresses. */
  #forgetAdds(): void {
    const { state, newestAdds } = this.#context;
    const known = new Set(
      [...state.allocations.values()].flatMap(({ pod, network, interfaceName }) =>
        pod === undefined ? [] : [podInterface(pod, network, interfaceName)],
      ),
    );
    for (const key of newestAdds.keys()) if (!known.has(key)) newestAdds.delete(key);
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

/** Whether a pod is on the node, or cannot be told. */
function mayExist(pod: Allocation["pod"], pods: readonly NodePod[]): boolean {
  return pod === undefined || pods.some(({ uid }) => uid === pod.uid);
}
