import type { PodDevices } from "../kubelet/pod-resources.ts";
import { parseDeviceId } from "../names/device-id.ts";
import type { AllocationRecord } from "../records/allocation-record.ts";
import type { RecordStore } from "../records/record-store.ts";
import { newestAllocationOf, newestAllocations } from "../records/records.ts";
import type { Clock } from "../sync/clock.ts";
import { Debouncer } from "../sync/debouncer.ts";

/**
 * Milliseconds from Allocate to the question which pod it was for: kubelet knows by then, and ADD comes later, for a
 * sandbox has to be made first.
 */
const LEARN_AFTER_MS = 100;

/** What {@link DeviceHolders} looks at. */
export interface DeviceHoldersOptions {
  /** Kubelet's list, read after the call. @throws Failure kubelet-unavailable */
  readonly listPods: () => Promise<readonly PodDevices[]>;
  readonly allocations: () => readonly AllocationRecord[];
}

/**
 * Which pod holds which of our devices, by kubelet's word. What kubelet said of a device is true as long as its
 * newest allocation is the same: a device passes to another pod through Allocate alone, and Allocate is ours. So ADD
 * need not wait for kubelet when somebody asked before.
 */
export class DeviceHolders {
  readonly #options: DeviceHoldersOptions;
  /** By device. Allocation ids are never used again, so an entry that is out of date matches nothing. */
  #known: ReadonlyMap<string, { readonly allocationId: string; readonly pod: string }> = new Map();

  constructor(options: DeviceHoldersOptions) {
    this.#options = options;
  }

  /**
   * Asks kubelet soon after each Allocate, once for all that come close together, so that their ADDs need not. Ends
   * with the signal.
   */
  follow(
    allocations: Pick<RecordStore<AllocationRecord>, "subscribe">,
    clock: Clock,
    signal: AbortSignal,
  ): void {
    const learn = new Debouncer({
      // What it does not learn, ADD asks for.
      act: () => void this.#read().catch(() => undefined),
      settleMs: LEARN_AFTER_MS,
      clock,
      signal,
    });
    const stop = allocations.subscribe((before) => {
      if (before === undefined) learn.call();
    });
    signal.addEventListener("abort", stop, { once: true });
  }

  /** Whether a pod holds a device. @throws Failure kubelet-unavailable */
  async holds(namespace: string, name: string, device: string): Promise<boolean> {
    const known = this.#known.get(device);
    if (known?.pod === `${namespace}/${name}`) {
      if (known.allocationId === newestAllocationOf(device, this.#options.allocations())?.id) return true;
    }
    return (await this.devicesOf(namespace, name)).includes(device);
  }

  /**
   * Our devices that a pod holds, as kubelet says now. One that was allocated anew while kubelet was asked is left out:
   * it may be the next pod's, and its newest allocation with it.
   * @throws Failure kubelet-unavailable
   */
  async devicesOf(namespace: string, name: string): Promise<readonly string[]> {
    const { pods, before } = await this.#read();
    const after = this.#options.allocations();
    return pods
      .filter((pod) => pod.podNamespace === namespace && pod.podName === name)
      .flatMap((pod) => ourDevices(pod))
      .filter((device) => newestAllocationOf(device, after)?.id === before.get(device)?.id);
  }

  /** The list, and the allocations from before it was read. */
  async #read(): Promise<{
    readonly pods: readonly PodDevices[];
    readonly before: ReadonlyMap<string, AllocationRecord>;
  }> {
    const before = newestAllocations(this.#options.allocations());
    const pods = await this.#options.listPods();
    this.#known = new Map(
      pods.flatMap((pod) =>
        ourDevices(pod).flatMap((device) => {
          const allocation = before.get(device);
          if (allocation === undefined) return [];
          const holder = { allocationId: allocation.id, pod: `${pod.podNamespace}/${pod.podName}` };
          return [[device, holder] as const];
        }),
      ),
    );
    return { pods, before };
  }
}

/** Ids of ours name their pool; whether it is still configured does not matter here. */
function ourDevices({ containers }: PodDevices): readonly string[] {
  return containers
    .flatMap(({ devices }) => devices.flatMap(({ ids }) => ids))
    .filter((id) => parseDeviceId(id) !== undefined);
}
