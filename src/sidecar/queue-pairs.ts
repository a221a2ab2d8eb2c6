/** KubeVirt's limit of queue pairs per NIC. */
const QUEUE_PAIRS_MAX = 256;

type Quantities = Readonly<Record<string, string | number>> | null | undefined;

/** The parts of a VMI's `spec.domain` that say how many vCPUs the guest has. */
export interface GuestSize {
  readonly cpu?: CpuTopology | null | undefined;
  readonly resources?: { readonly requests?: Quantities; readonly limits?: Quantities } | null | undefined;
}

interface CpuTopology {
  readonly cores?: number | null | undefined;
  readonly sockets?: number | null | undefined;
  readonly threads?: number | null | undefined;
}

/**
 * KubeVirt's rule for several queues: one pair per vCPU that the guest starts with (not those that can be
 * plugged), at most 256. With no topology the sockets are the CPU limit, else the request, rounded up, else 1.
 */
export function queuePairs({ cpu, resources }: GuestSize): number {
  const { cores, sockets, threads } = cpu ?? {};
  const vcpus =
    !cores && !sockets && !threads
      ? wholeCpus(resources?.limits?.["cpu"] ?? resources?.requests?.["cpu"])
      : (cores || 1) * (sockets || 1) * (threads || 1);
  return Math.min(vcpus, QUEUE_PAIRS_MAX);
}

/** A Kubernetes quantity of CPUs, rounded up; 1 where none is given. Suffixes that no CPU count has give 1. */
function wholeCpus(quantity: string | number | undefined): number {
  const match = /^(\d+(?:\.\d+)?(?:e[+-]?\d+)?)(m?)$/i.exec(String(quantity ?? ""));
  const value = Number(match?.[1] ?? 1);
  return Math.max(1, Math.ceil(match?.[2] === "m" ? value / 1000 : value));
}
