import type { Address } from "../../addresses/address.ts";
import { type ClaimAddress, parseIpamClaim } from "../../claims/ipam-claim.ts";
import {
  type NetworkAttachment,
  parseNetworkAttachment,
  whyNotPersistent,
} from "../../claims/network-attachment.ts";
import {
  IPAM_CLAIMS,
  NADS,
  VM_LABEL,
  VMI_INTERFACE_LABEL,
  VMI_REQUEST_LABEL,
} from "../../claims/resources.ts";
import { describeThrown } from "../../failure/failure.ts";
import type { KubeObject } from "../../kube-api/client.ts";
import { Mirror } from "../mirror.ts";

/** What is kept of a claim. */
export interface ClaimEntry {
  readonly uid: string;
  readonly isDeleting: boolean;
  readonly network: string;
  /** Of its annotation, where the network is a ResourceClaim's. */
  readonly pools: readonly string[] | undefined;
  readonly ips: readonly ClaimAddress[];
  /** Reason of the condition IPsAllocated; undefined where the claim has no such condition. */
  readonly reason: string | undefined;
  /** Name of the VM by the label; undefined where it has none. */
  readonly vm: string | undefined;
  /** Its only owner's uid; undefined where it has none, or several. */
  readonly ownerUid: string | undefined;
  readonly ownerKind: string | undefined;
  readonly finalizers: readonly string[];
  /** Hash of the VM's interface, where our controller made the claim. */
  readonly interfaceHash: string | undefined;
  /** Hash of the VM's ResourceClaim and request, where the network is of those. */
  readonly requestHash: string | undefined;
}

/** A network of ours that claims may name. */
export type ClaimNetwork =
  | { readonly pools: readonly string[] }
  /** Why its claims get no addresses. */
  | { readonly reason: "NetworkConflict" | "PersistentIPsNotAllowed"; readonly problem: string };

/** Claims and NetworkAttachmentDefinitions as their watches show them: they may be old, and say where to look. */
export class ClaimsView {
  /** By namespace and name; a text says why one cannot be read. */
  readonly claims: Mirror<ClaimEntry | string>;
  readonly attachments: Mirror<NetworkAttachment | undefined>;
  /** Grows with every change of a NetworkAttachmentDefinition, and every claim that waits for addresses. */
  revision = 0;
  /** Keys of claims by namespace and name of the VM in their label. */
  readonly byVm = new Map<string, Set<string>>();
  /** Claims without addresses that are not being deleted, by network; without those that name pools. */
  readonly #waiting = new Map<string, number>();
  #claimWaits = Promise.withResolvers<void>();
  #networks: ReadonlyMap<string, ClaimNetwork> | undefined;
  /** Of each pool that claims name in their annotation: how many do, and how many of them wait. */
  readonly #named = new Map<string, { readonly claims: number; readonly waiting: number }>();

  /** @param changed called with a claim's key, and the keys of the VMs that its label named before and names now */
  constructor(changed: {
    readonly claim: (key: string, vms: ReadonlySet<string>) => void;
    readonly networks: () => void;
  }) {
    this.claims = new Mirror({
      ...{ resource: IPAM_CLAIMS, keyOf, entryOf: claimEntryOf },
      onChange: (key, before, after) => {
        this.#countWaiting(before, after);
        const [former, vm] = [vmKeyOf(key, before), vmKeyOf(key, after)];
        if (former !== undefined && former !== vm) {
          const left = this.byVm.get(former);
          left?.delete(key);
          if (left?.size === 0) this.byVm.delete(former);
        }
        if (vm !== undefined) this.byVm.set(vm, (this.byVm.get(vm) ?? new Set()).add(key));
        changed.claim(key, new Set([former, vm].filter((one) => one !== undefined)));
      },
    });
    this.attachments = new Mirror({
      ...{ resource: NADS, keyOf, entryOf: attachmentOf },
      onChange: () => {
        this.#networks = undefined;
        this.revision += 1;
        changed.networks();
      },
    });
  }

  get isSynced(): boolean {
    return this.claims.isSynced && this.attachments.isSynced;
  }

  /** Networks of ours by the name in their CNI configuration. */
  get networks(): ReadonlyMap<string, ClaimNetwork> {
    this.#networks ??= networksOf([...this.attachments.entries.values()].filter((one) => one !== undefined));
    return this.#networks;
  }

  /** The network of a claim; undefined where it is not ours. */
  networkOf({ pools, network }: Pick<ClaimEntry, "pools" | "network">): ClaimNetwork | undefined {
    return pools === undefined ? this.networks.get(network) : { pools };
  }

  /** Resolves when one more claim waits for addresses. */
  get claimWaits(): Promise<void> {
    return this.#claimWaits.promise;
  }

  /** How many claims wait for an address of a pool; undefined where none can get one of it. @param name of the pool */
  waitingFor(name: string): number | undefined {
    const networks = [...this.networks].filter(
      ([, network]) => "pools" in network && network.pools.includes(name),
    );
    const named = this.#named.get(name);
    if (networks.length === 0 && named === undefined) return undefined;
    return networks.reduce((sum, [one]) => sum + (this.#waiting.get(one) ?? 0), named?.waiting ?? 0);
  }

  #countWaiting(before: ClaimEntry | string | undefined, after: ClaimEntry | string | undefined): void {
    for (const [entry, change] of [
      [before, -1],
      [after, 1],
    ] as const) {
      if (typeof entry !== "object") continue;
      const waits = entry.ips.length === 0 && !entry.isDeleting;
      for (const pool of entry.pools ?? []) this.#countNamed(pool, change, waits);
      if (!waits) continue;
      if (entry.pools === undefined)
        this.#waiting.set(entry.network, (this.#waiting.get(entry.network) ?? 0) + change);
      if (change < 0) continue;
      this.revision += 1;
      this.#claimWaits.resolve();
      this.#claimWaits = Promise.withResolvers();
    }
  }

  #countNamed(pool: string, change: 1 | -1, waits: boolean): void {
    const { claims, waiting } = this.#named.get(pool) ?? { claims: 0, waiting: 0 };
    if (claims + change === 0) this.#named.delete(pool);
    else this.#named.set(pool, { claims: claims + change, waiting: waiting + (waits ? change : 0) });
  }
}

export function sameAddress(one: Address, other: Address): boolean {
  return one.value === other.value && one.family === other.family;
}

/** The key of an object with a namespace. */
export function keyOf({ metadata: { namespace, name } }: KubeObject): string {
  return `${namespace}/${name}`;
}

/** Namespace and name of a key. */
export function partsOf(key: string): { readonly namespace: string; readonly name: string } {
  const slash = key.indexOf("/");
  return { namespace: key.slice(0, slash), name: key.slice(slash + 1) };
}

/** The name that the network of an attachment has: Multus puts in that of the object where the configuration has none. */
export function networkNameOf({ network, name }: NetworkAttachment): string {
  return network ?? name;
}

function networksOf(attachments: readonly NetworkAttachment[]): ReadonlyMap<string, ClaimNetwork> {
  const ours = attachments.filter(({ pools }) => pools !== undefined);
  return new Map(
    [...Map.groupBy(ours, networkNameOf)].map(([name, group]) => [name, networkOf(name, group)] as const),
  );
}

/** A claim names a network and not a NetworkAttachmentDefinition, so that those of one network must agree. */
function networkOf(name: string, group: readonly NetworkAttachment[]): ClaimNetwork {
  const keys = group.map(({ namespace, name: own }) => `${namespace}/${own}`).join(", ");
  const variants = new Set(
    group.map(({ allowPersistentIPs, pools }) => JSON.stringify([allowPersistentIPs, pools])),
  );
  if (variants.size > 1) {
    const problem = `the NetworkAttachmentDefinitions ${keys} have the network name ${name}, and differ in ipam.pools or allowPersistentIPs`;
    return { reason: "NetworkConflict", problem };
  }
  const why = group.map(whyNotPersistent).find((one) => one !== undefined);
  if (why === undefined) return { pools: group[0]?.pools ?? [] };
  const problem = `the configuration of network ${name} (${keys}) allows no claims: ${why}`;
  return { reason: "PersistentIPsNotAllowed", problem };
}

function vmKeyOf(key: string, entry: ClaimEntry | string | undefined): string | undefined {
  if (entry === undefined || typeof entry === "string" || entry.vm === undefined) return undefined;
  return `${partsOf(key).namespace}/${entry.vm}`;
}

function claimEntryOf(object: KubeObject): ClaimEntry | string {
  try {
    const claim = parseIpamClaim(object);
    const { uid, isDeleting, network, pools, ips, conditions, labels, owners, finalizers } = claim;
    const [owner, ...others] = owners;
    const only = others.length === 0 ? owner : undefined;
    return {
      ...{ uid, isDeleting, network, pools, ips, finalizers, vm: labels[VM_LABEL] },
      ...{ ownerUid: only?.uid, ownerKind: only?.kind },
      ...{ interfaceHash: labels[VMI_INTERFACE_LABEL], requestHash: labels[VMI_REQUEST_LABEL] },
      reason: conditions.find(isAllocation)?.reason,
    };
  } catch (error) {
    return describeThrown(error);
  }
}

function isAllocation(condition: object): condition is { readonly type: string; readonly reason: string } {
  return (condition as { readonly type?: unknown }).type === "IPsAllocated";
}

function attachmentOf(object: KubeObject): NetworkAttachment | undefined {
  try {
    return parseNetworkAttachment(object);
  } catch {
    return undefined;
  }
}
