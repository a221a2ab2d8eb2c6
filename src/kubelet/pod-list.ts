import type { PodDevices } from "./pod-resources.ts";

/** What a {@link PodList} reads with. */
export interface PodListOptions {
  readonly read: (signal: AbortSignal) => Promise<readonly PodDevices[]>;
  /** Milliseconds that one read may take. */
  readonly deadlineMs: number;
}

/**
 * Kubelet's list of pods for many askers at once. Kubelet allows 100 calls a second, with bursts of 10, and a node
 * that boots attaches dozens of pods at a time: at most one read runs, and whoever comes meanwhile shares the next.
 */
export class PodList {
  readonly #options: PodListOptions;
  #running: Promise<readonly PodDevices[]> | undefined;
  #next: Promise<readonly PodDevices[]> | undefined;

  constructor(options: PodListOptions) {
    this.#options = options;
  }

  /** A list that was read after this call. @throws Failure kubelet-unavailable */
  read(): Promise<readonly PodDevices[]> {
    if (this.#running === undefined) return this.#start();
    // What runs may have begun before the caller's pod was in the list.
    this.#next ??= this.#running
      .catch(() => undefined)
      .then(() => {
        this.#next = undefined;
        return this.#start();
      });
    return this.#next;
  }

  #start(): Promise<readonly PodDevices[]> {
    const running = this.#options.read(AbortSignal.timeout(this.#options.deadlineMs)).finally(() => {
      if (this.#running === running) this.#running = undefined;
    });
    this.#running = running;
    return running;
  }
}
