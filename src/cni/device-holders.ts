import { devicesOfPod, type PodDevices } from "../kubelet/pod-resources.ts";
import { parseDeviceId } from "../names/device-id.ts";
import type { AllocationRecord } from "../records/allocation-record.ts";
import type { RecordStore } from "../records/record-store.ts";
import { newestAllocationOf, newestAllocations } from "../records/records.ts";
import type { Clock } from "../sync/clock.ts";
import { whenAborted } from "../sync/deadlines.ts";
import { Debouncer } from "../sync/debouncer.ts";

/** From Allocate to the question which pod it was for: kubelet knows by then, and no sandbox is made sooner. */
const LEARN_AFTER_MS = 100;

/**
 * Which pod holds which of our devices, as kubelet says. Its answer about a device stays true while the device's newest
 * allocation is the same, because a device passes to another pod through Allocate alone; so ADD need not wait for
 * kubelet when it was asked before.
 */
export class DeviceHolders {
  readonly #listPods: () => Promise<readonly PodDevices[]>;
  readonly #allocations: Pick<RecordStore<AllocationRecord>, "list" | "subscribe">;
  /** By device. Allocation ids are never used again, so an entry that is out of date matches nothing. */
  #known: ReadonlyMap<string, { readonly allocationId: string; readonly pod: string }> = new Map();

  /** @param listPods reads kubelet's list after it was called; throws Failure kubelet-unavailable */
  constructor(
    listPods: () => Promise<readonly PodDevices[]>,
    allocations: Pick<RecordStore<AllocationRecord>, "list" | "subscribe">,
  ) {
    this.#listPods = listPods;
    this.#allocations = allocations;
  }

  /** Asks kubelet soon after Allocate, once for all that come close together, until the signal fires. */
  follow(clock: Clock, signal: AbortSignal): void {
    // What it does not learn, ADD asks for.
    const act = () => void this.#read().catch(() => undefined);
    const learn = new Debouncer({ act, settleMs: LEARN_AFTER_MS, clock, signal });
    const stop = this.#allocations.subscribe((before) => {
      if (before === undefined) learn.call();
    });
    whenAborted(signal, stop);
  }

  /** Whether a pod holds a device. @throws Failure kubelet-unavailable */
  async holds(namespace: string, name: string, device: string): Promise<boolean> {
    const known = this.#known.get(device);
    const newest = newestAllocationOf(device, this.#allocations.list());
    if (known?.pod === `${namespace}/${name}` && known.allocationId === newest?.id) return true;
    return (await this.devicesOf(namespace, name)).includes(device);
  }

  /**
   * Our devices that a pod holds, as kubelet says now, without those that were allocated again while it was asked: they
   * may be the next pod's, and their newest allocation with them.
   * @throws Failure kubelet-unavailable
   */
  async devicesOf(namespace: string, name: string): Promise<readonly string[]> {
    const { pods, before } = await this.#read();
    const after = this.#allocations.list();
    return pods
      .filter((pod) => pod.podNamespace === namespace && pod.podName === name)
      .flatMap(ourDevices)
      .filter((device) => newestAllocationOf(device, after)?.id === before.get(device)?.id);
  }

  /** The list, and the newest allocations from before it was read. */
  async #read(): Promise<{
    readonly pods: readonly PodDevices[];
    readonly before: ReadonlyMap<string, AllocationRecord>;
  }> {
    const before = newestAllocations(this.#allocations.list());
    const pods = await this.#listPods();
    const holders = pods.flatMap((pod) =>
      ourDevices(pod).flatMap((device) => {
        const allocationId = before.get(device)?.id;
        const holder = `${pod.podNamespace}/${pod.podName}`;
        return allocationId === undefined ? [] : [[device, { allocationId, pod: holder }] as const];
      }),
    );
    this.#known = new Map(holders);
    return { pods, before };
  }
}

/** Whether the pool that an id names is still configured does not matter here. */
function ourDevices(pod: PodDevices): readonly string[] {
  const ids = devicesOfPod(pod).flatMap((held) => held.ids);
  return ids.filter((id) => parseDeviceId(id) !== undefined);
}
