import { Failure } from "../failure/failure.ts";
import { type Clock, systemClock } from "../sync/clock.ts";
import { type NetworkEntry, parseNetworkInfo } from "./network-info.ts";
import { readBounded } from "./read-json.ts";

/** How {@link waitForNetworks} waits. */
export interface WaitOptions {
  /** The downward API's file. */
  readonly file: string;
  /** Milliseconds. */
  readonly budgetMs: number;
  readonly pollMs?: number;
  readonly clock?: Clock;
  readonly signal?: AbortSignal;
}

/**
 * Waits until the file lists every network. virt-controller writes the annotation behind it only once the pod is
 * Ready, so it is empty at first; kubelet replaces it as a whole, so it is never torn.
 * @returns the entries by network name
 * @throws Failure `network-info-timeout`, `invalid-network-info`, or the signal's reason
 */
export async function waitForNetworks(
  networks: readonly string[],
  options: WaitOptions,
): Promise<ReadonlyMap<string, NetworkEntry>> {
  const { file, budgetMs, pollMs = 100, clock = systemClock, signal } = options;
  if (networks.length === 0) return new Map();
  const deadline = clock.monotonic() + budgetMs;
  for (;;) {
    signal?.throwIfAborted();
    const text = await readBounded(file, "invalid-network-info");
    const listed =
      text === undefined || text.trim() === "" ? new Map() : parseNetworkInfo(text, file, networks);
    if (networks.every((network) => listed.has(network))) return listed;
    const left = deadline - clock.monotonic();
    if (left <= 0) throw notListed(networks, text, [...listed.keys()], file, budgetMs);
    await clock.sleep(Math.min(pollMs, left), signal);
  }
}

function notListed(
  networks: readonly string[],
  text: string | undefined,
  listed: readonly string[],
  where: string,
  budgetMs: number,
): Failure {
  const missing = networks.filter((network) => !listed.includes(network)).join(", ");
  const state =
    text === undefined
      ? "the file is not there"
      : text.trim() === ""
        ? "the file is empty"
        : "others are listed";
  return new Failure({
    code: "network-info-timeout",
    what: `KubeVirt did not list network ${missing} within ${Math.round(budgetMs / 1000)} s: ${state}`,
    where,
    fix:
      text === undefined
        ? "register the binding with `downwardAPI: device-info` in the KubeVirt CR"
        : "check that Multus attached the network (annotation k8s.v1.cni.cncf.io/network-status of the pod)",
  });
}
