import { Failure } from "../failure/failure.ts";
import type { Logger } from "../logging/logger.ts";
import { checkUnixPath, isBelow } from "../names/unix-path.ts";
import { systemClock } from "../sync/clock.ts";
import { readClaimMetadata } from "./dra-metadata.ts";
import type { DomainCall } from "./hook-services.ts";
import { invalidInfo, type NetworkEntry, type WaitOptions, waitForNetworks } from "./network-info.ts";
import { type SharedDirectory, stableSocketPath } from "./stable-link.ts";
import type { Vmi, VmiInterface } from "./vmi.ts";

/** The part of the caller's time to wait for: our error says more than an exceeded deadline. */
const WAITED_PART = 5 / 6;

/**
 * virt-launcher gives a callback 60 s, but virt-handler, which writes the VM's events, gives virt-launcher 20 s for the
 * whole start. A later answer is lost, and the event says that a deadline was exceeded. virt-handler tries again.
 */
const BUDGET_MS = 15_000;

/** On a migration's target KubeVirt before 1.6.3 never writes the file, and the steps after the hook need time too. */
const TARGET_BUDGET_MS = 10_000;

/** What is known of an interface beyond the VMI. */
export interface NicSocket {
  /** The socket's path for the XML. */
  readonly path: string;
  /** MAC of the pod interface; the VMI's own wins. */
  readonly mac: string | undefined;
  readonly mtu: number | undefined;
}

/** Where to look for sockets. */
export interface FindSocketsOptions {
  /** Directories for stable links; the path in the domain goes through the first. */
  readonly links: readonly [SharedDirectory, ...SharedDirectory[]];
  readonly networkInfo: Omit<WaitOptions, "signal" | "budgetMs"> & {
    /** Milliseconds to wait where a VM starts; default 15 000. */
    readonly budgetMs?: number;
    /** Milliseconds to wait on a migration's target; default 10 000. */
    readonly targetBudgetMs?: number;
  };
  /** Root of DRA device metadata in this container. */
  readonly metadataRoot: string;
  /** Directories that sockets may lie below, as compute sees them. */
  readonly socketRoots: readonly string[];
  readonly logger: Logger;
}

/** The call that sockets are looked up for. */
export interface Caller extends DomainCall {
  readonly isMigrationTarget: boolean;
}

/**
 * The socket of each interface by its name, with the path for the domain; stable links are made. Undefined on a
 * migration's target without network-info, which a socket on the constant path does not need.
 * @throws Failure
 */
export async function findSockets(
  vmi: Vmi,
  options: FindSocketsOptions,
  caller: Caller,
): Promise<ReadonlyMap<string, NicSocket> | undefined> {
  const fromClaims = readClaims(vmi, options);
  const attached = await waitForAttached(vmi, options, caller);
  if (attached === undefined) return undefined;
  const entries = new Map([...attached, ...fromClaims]);
  const byPath = new Map<string, VmiInterface>();
  for (const one of vmi.interfaces) {
    const path = pathOf(one, entries.get(one.name), vmi, options);
    const other = byPath.get(path);
    if (other !== undefined) {
      throw invalidInfo(
        `interfaces ${other.name} and ${one.name} have the same socket ${path}`,
        `VMI ${vmi.name}`,
        "correct what wrote their device-info or device metadata: a socket serves one NIC",
      );
    }
    byPath.set(path, one);
  }
  const sockets = new Map<string, NicSocket>();
  for (const [socketPath, one] of byPath) {
    const path = await stableSocketPath(one, socketPath, options.links);
    const { mac, mtu } = entries.get(one.name) ?? {};
    sockets.set(one.name, { path, mac, mtu });
  }
  return sockets;
}

function readClaims(vmi: Vmi, { metadataRoot }: FindSocketsOptions): [string, NetworkEntry][] {
  return vmi.interfaces.flatMap(({ name, claim }) =>
    claim === undefined ? [] : [[name, readClaimMetadata(claim, name, metadataRoot)]],
  );
}

/** Network-info of the interfaces that Multus attached. */
async function waitForAttached(
  vmi: Vmi,
  { networkInfo, logger }: FindSocketsOptions,
  { signal, deadline, isMigrationTarget }: Caller,
): Promise<Awaited<ReturnType<typeof waitForNetworks>> | undefined> {
  const names = vmi.interfaces.filter(({ claim }) => claim === undefined).map(({ name }) => name);
  const { clock = systemClock, budgetMs = BUDGET_MS, targetBudgetMs = TARGET_BUDGET_MS } = networkInfo;
  const mostMs = isMigrationTarget ? targetBudgetMs : budgetMs;
  const left = Math.max(0, deadline - clock.now()) * WAITED_PART;
  try {
    return await waitForNetworks(names, { ...networkInfo, budgetMs: Math.min(mostMs, left), signal });
  } catch (error) {
    const isEmpty = error instanceof Failure && error.code === "network-info-timeout";
    if (!isMigrationTarget || !isEmpty) throw error;
    logger.warn(
      { vmi: vmi.name, err: error },
      "no network-info on a migration's target (KubeVirt before 1.6.3 writes none): the socket must be on the constant path",
    );
    return undefined;
  }
}

function pathOf(
  { name }: VmiInterface,
  entry: NetworkEntry | undefined,
  vmi: Vmi,
  { socketRoots }: FindSocketsOptions,
): string {
  const where = `VMI ${vmi.name}, interface ${name}`;
  if (entry?.socketPath !== undefined) return checkSocketPath(entry.socketPath, socketRoots, where);
  throw invalidInfo(
    "the network has no device-info, so its socket is not known",
    where,
    "give its NetworkAttachmentDefinition the annotation k8s.v1.cni.cncf.io/resourceName, and, with " +
      "Multus before 4.2.4, a single plugin instead of a plugins list",
  );
}

/** Where the compute container has directories of device plugins and drivers. */
export const SOCKET_ROOTS: readonly string[] = ["/var/run", "/run", "/var/lib"];

/** Directories of compute's own: a NIC's socket there could replace another program's. */
const RESERVED: readonly string[] = ["kubevirt", "libvirt", "kubernetes.io", "secrets", "lock"];

/**
 * Checks the path of a socket that a program outside of the pod wrote.
 * @throws Failure `directory-unsafe`, `path-too-long`
 */
export function checkSocketPath(path: string, roots: readonly string[], where: string): string {
  checkUnixPath(path, where);
  const reserved = RESERVED.flatMap((name) => ["/var/run/", "/run/", "/var/lib/"].map((root) => root + name));
  // `kubevirt` stands for kubevirt-private, kubevirt-hooks and their like.
  const isReserved = reserved.some((start) =>
    start.endsWith("kubevirt") ? path.startsWith(start) : isBelow(path, start),
  );
  if (!isReserved && roots.some((root) => isBelow(path, root))) return path;
  throw new Failure({
    code: "directory-unsafe",
    what: `socket path ${JSON.stringify(path)} is ${isReserved ? "in a directory of KubeVirt's own" : `not below ${roots.join(", ")}`}`,
    where,
    fix: "let the device plugin or driver mount its sockets elsewhere, or set VHOSTUSER_SOCKET_ROOTS in the sidecar's image",
  });
}
