import type { NetworkVariant } from "./network-variants.ts";

/** One interface that a pod asked for. */
export interface PodInterface {
  readonly name: string;
  readonly device: string;
  readonly network: NetworkVariant;
}

/** A sandbox of a pod, and which of its interfaces the runtime believes to be attached. */
export interface PodSandbox {
  readonly containerId: string;
  /** By interface name, what ADD answered. Not in here: never added, failed, killed, or detached. */
  readonly attached: Map<string, unknown>;
}

/** Interface whose ADD must fail; only an empty directory may stay of it. */
export const VAIN_INTERFACE = "net9";

/** A pod that kubelet runs. */
export interface LivingPod {
  readonly name: string;
  readonly uid: string;
  /** Directory of its allocation on the host. */
  readonly hostPath: string;
  readonly interfaces: readonly PodInterface[];
  /** Milliseconds since the epoch. */
  readonly admittedAt: number;
  sandbox: PodSandbox;
  /** It has filled a directory of its own, which the daemon may have locked for a while; CHECK says so. */
  hasHoarded?: boolean;
}
