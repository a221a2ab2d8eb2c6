import { type NetworkAttachment, whyNotPersistent } from "../../../claims/network-attachment.ts";
import type { ClaimsContext } from "../claims-context.ts";
import { networkNameOf } from "../claims-view.ts";
import { hasStarted } from "./claim-life.ts";
import { type PortNetwork, readPortNetwork } from "./port-network.ts";
import type { VmiEntry, VmNetwork } from "./vms-view.ts";

/** A network of a VM whose interface is to keep its addresses. */
export interface ClaimedNetwork {
  readonly name: string;
  /** Of a ResourceClaim's network; others have them in their NetworkAttachmentDefinition. */
  readonly pools?: readonly string[];
  /** Why its interface gets no claim nevertheless. */
  readonly problem?: string;
}

/** What NetworkAttachmentDefinitions and ResourceClaims say of the networks of VMs. */
export class VmNetworks {
  readonly #context: ClaimsContext;
  /** Those of ResourceClaims, by the VMI's uid and the network. */
  readonly #read = new Map<string, PortNetwork | undefined>();

  constructor(context: ClaimsContext) {
    this.#context = context;
  }

  /** The name of a NetworkAttachmentDefinition's network. */
  nameOf(network: VmNetwork): string | undefined {
    const attachment = this.#attachmentOf(network);
    return attachment && networkNameOf(attachment);
  }

  /**
   * Undefined for a network that needs no claim, or no other one now: ResourceClaims are prepared before a VM has started, and
   * KubeVirt changes none afterwards.
   * @throws as {@link readPortNetwork}
   */
  async claimedOf(
    namespace: string,
    vmi: VmiEntry,
    network: VmNetwork,
    signal: AbortSignal,
  ): Promise<ClaimedNetwork | undefined> {
    const { name, source } = network;
    if (typeof source === "string") {
      const attachment = this.#attachmentOf(network);
      if (attachment?.pools === undefined) return undefined;
      if (!attachment.allowPersistentIPs && !attachment.isAllowedAtTop) return undefined;
      const why = whyNotPersistent(attachment);
      const problem = why && `NetworkAttachmentDefinition ${source} allows no claims: ${why}`;
      return { name: networkNameOf(attachment), ...(problem && { problem }) };
    }
    if (hasStarted(vmi)) return undefined;
    const key = `${vmi.uid}/${name}`;
    if (!this.#read.has(key))
      this.#read.set(key, await readPortNetwork(this.#context.api, namespace, source, signal));
    return this.#read.get(key);
  }

  /** Forgets those of other VMIs. @param uids of VMIs */
  keep(uids: ReadonlySet<string | undefined>): void {
    for (const key of this.#read.keys())
      if (!uids.has(key.slice(0, key.indexOf("/")))) this.#read.delete(key);
  }

  #attachmentOf({ source }: VmNetwork): NetworkAttachment | undefined {
    return typeof source === "string" ? this.#context.claims.attachments.entries.get(source) : undefined;
  }
}
