// Claims of VMs, where kubevirt/ipam-extensions does not make them: the same names, labels, owners and finalizer.
import { isDeepStrictEqual } from "node:util";
import { claimName } from "../../../claims/claim-name.ts";
import { parseIpamClaim } from "../../../claims/ipam-claim.ts";
import { IPAM_CLAIMS, inNamespace, PERSISTENT_IPAM_FINALIZER, VMIS, VMS } from "../../../claims/resources.ts";
import { linked, orAborted } from "../../../sync/deadlines.ts";
import { WorkQueue } from "../../../sync/work-queue.ts";
import { isOvertaken } from "../../controller-context.ts";
import { readNow } from "../../look.ts";
import type { FollowOptions } from "../../mirror.ts";
import { listHolders, mayHold } from "../claim-holders.ts";
import type { ClaimsContext } from "../claims-context.ts";
import { type ClaimEntry, partsOf } from "../claims-view.ts";
import { hasStarted, isDropped, isOver, type VmOfName } from "./claim-life.ts";
import { type ClaimMarks, marked, marksOf, newClaim } from "./new-claim.ts";
import { findOtherManager } from "./other-manager.ts";
import { VmNetworks } from "./vm-networks.ts";
import { parseVm, parseVmi, type VmiEntry, type VmNetwork, VmsView } from "./vms-view.ts";

const WORKERS = 4;

/** Makes the claims of VMs, and ends them with their VM or their interface. Yields to kubevirt/ipam-extensions. */
export class ClaimManager {
  readonly view: VmsView;
  readonly #context: ClaimsContext;
  readonly #queue: WorkQueue;
  /** Undefined until it is known whether another program makes the claims. */
  #isManaging: boolean | undefined;
  /** What was said in an event, by the VMI's uid and the network. */
  readonly #said = new Map<string, string>();
  readonly #networks: VmNetworks;

  constructor(context: ClaimsContext) {
    this.#context = context;
    this.#networks = new VmNetworks(context);
    this.view = new VmsView((key) => this.#queue.add(key));
    this.#queue = new WorkQueue({
      work: (key, signal) => this.#reconcile(key, signal),
      onFailure: (vmi, error) =>
        context.onFailure({ vmi }, "the claims of a VM cannot be brought up to date", error),
      workers: WORKERS,
      clock: context.clock,
    });
  }

  /** Whether this program makes the claims; undefined until that is known. */
  get isManaging(): boolean | undefined {
    return this.#isManaging;
  }

  /** Follows VMs until the signal fires; rejects with its reason then. */
  follow(options: FollowOptions, signal: AbortSignal): Promise<never> {
    return Promise.race([this.view.vms.follow(options, signal), this.view.vmis.follow(options, signal)]);
  }

  /** Works until the signal fires; rejects with its reason then. Claims and networks are synced before. */
  async run(signal: AbortSignal): Promise<never> {
    const { vms, vmis } = this.view;
    await orAborted(Promise.all([vms.whenSynced(), vmis.whenSynced()]), signal);
    await this.pass(signal);
    await linked(signal, (ended) => this.#queue.run(ended));
    throw signal.reason;
  }

  /** Has the claims of a VM looked at. @param key namespace and name of the VM */
  changed(key: string): void {
    this.#queue.add(key);
  }

  /** Asks who makes the claims, and has all of them looked at: that costs a request only where something is to be done. */
  async pass(signal: AbortSignal): Promise<void> {
    const { api, logger, post, onFailure } = this.#context;
    try {
      const other = await findOtherManager(api, signal);
      const isManaging = other === undefined;
      if (isManaging !== this.#isManaging && other !== undefined) {
        logger.warn(
          { reason: `webhook configuration ${other.name}` },
          "kubevirt/ipam-extensions is installed: it makes the claims of VMs, not this program",
        );
        const regarding = { kind: "MutatingWebhookConfiguration", ...other } as const;
        const note =
          "kubevirt/ipam-extensions makes the IPAMClaims of VMs, and kube-vhostuser does not. Set ipam.claims.manage to false, or remove it";
        post({ regarding, reason: "ClaimsManagedElsewhere", action: "Yield", note });
      } else if (isManaging !== this.#isManaging) logger.info("the claims of VMs are made by this program");
      this.#isManaging = isManaging;
    } catch (error) {
      signal.throwIfAborted();
      // As long as it is not known, what is there stays.
      this.#isManaging = undefined;
      onFailure({}, "it cannot be read whether kubevirt/ipam-extensions is installed", error);
    }
    const uids = new Set([...this.view.vmis.entries.values()].map((vmi) => vmi?.uid));
    for (const said of this.#said.keys())
      if (!uids.has(said.slice(0, said.indexOf("/")))) this.#said.delete(said);
    this.#networks.keep(uids);
    this.allChanged();
  }

  /** Has the claims of all VMs looked at. */
  allChanged(): void {
    const { vms, vmis } = this.view;
    const { byVm } = this.#context.claims;
    for (const key of new Set([...vms.entries.keys(), ...vmis.entries.keys(), ...byVm.keys()]))
      this.#queue.add(key);
  }

  async #reconcile(key: string, signal: AbortSignal): Promise<void> {
    const { claims, attachments, byVm } = this.#context.claims;
    const { vms, vmis } = this.view;
    if (
      this.#isManaging !== true ||
      !vms.isSynced ||
      !vmis.isSynced ||
      !claims.isSynced ||
      !attachments.isSynced
    )
      return;
    // One that cannot be read may use whatever claims there are.
    if ([vms, vmis].some(({ entries }) => entries.has(key) && entries.get(key) === undefined)) return;
    const failures: unknown[] = [];
    const attempt = async (work: () => Promise<void>) => {
      try {
        await work();
      } catch (error) {
        signal.throwIfAborted();
        if (!isOvertaken(error)) failures.push(error);
      }
    };
    for (const claimKey of byVm.get(key) ?? []) await attempt(() => this.#endClaim(key, claimKey, signal));
    const vmi = vmis.entries.get(key);
    if (vmi !== undefined && !vmi.isDeleting)
      for (const network of vmi.networks) await attempt(() => this.#ensureClaim(key, vmi, network, signal));
    if (failures.length > 0) throw failures[0];
  }

  /** Lets a claim go whose VM or interface is gone. What the watches show is read again at the API server. */
  async #endClaim(key: string, claimKey: string, signal: AbortSignal): Promise<void> {
    const { api, claims, logger } = this.#context;
    const { namespace, name: vmName } = partsOf(key);
    const { name } = partsOf(claimKey);
    const whyEnd = (claim: ClaimEntry, of: VmOfName): "over" | "dropped" | undefined => {
      if (!claim.finalizers.includes(PERSISTENT_IPAM_FINALIZER)) return undefined;
      if (isOver(claim, of)) return "over";
      if (claim.interfaceHash === undefined) return undefined;
      return isDropped({ vm: vmName, claim: name }, claim, of, (one) => this.#networks.nameOf(one))
        ? "dropped"
        : undefined;
    };
    const entry = claims.claims.entries.get(claimKey);
    if (entry === undefined || typeof entry === "string") return;
    const { vms, vmis } = this.view;
    const seen = { vm: vms.entries.get(key), vmi: vmis.entries.get(key) };
    if (whyEnd(entry, seen) === undefined) return;
    // The VM before its instance, which one that is going does not make again.
    const vmNow = await readNow(api, inNamespace(VMS, namespace), vmName, signal);
    const vmiNow = await readNow(api, inNamespace(VMIS, namespace), vmName, signal);
    const why = whyEnd(entry, { vm: vmNow && parseVm(vmNow), vmi: vmiNow && parseVmi(vmiNow) });
    if (why === undefined) return;
    const resource = inNamespace(IPAM_CLAIMS, namespace);
    if (why === "dropped") {
      // Until its pods have other addresses or are gone: the next pass looks again.
      const holders = await listHolders(api, namespace, signal);
      if (holders.some((one) => entry.ips.some((address) => mayHold(one, name, address)))) return;
      await api.delete(resource, name, { uid: entry.uid }, signal);
    }
    const claim = await readNow(api, resource, name, signal);
    if (claim === undefined || claim.metadata.uid !== entry.uid) return;
    const finalizers = parseIpamClaim(claim).finalizers.filter((one) => one !== PERSISTENT_IPAM_FINALIZER);
    await api.update(resource, { ...claim, metadata: { ...claim.metadata, finalizers } }, signal);
    const reason = why === "over" ? "no VM uses it any more" : "its interface is no longer in the VM";
    logger.info({ claim: claimKey, reason }, "a claim of a VM was let go");
  }

  async #ensureClaim(key: string, vmi: VmiEntry, network: VmNetwork, signal: AbortSignal): Promise<void> {
    const { claims, api, logger } = this.#context;
    const { namespace, name: vmName } = partsOf(key);
    const claimed = await this.#networks.claimedOf(namespace, vmi, network, signal);
    const owner = this.#ownerOf(key, vmi);
    // A VM of this name that is not the instance's: the instance is going.
    if (claimed === undefined || owner === undefined) return;
    const { name: wanted, problem } = claimed;
    const name = claimName(vmName, network.name);
    const claimKey = `${namespace}/${name}`;
    const say = (note: string) => this.#say(key, vmi, network, note);
    if (problem !== undefined) return say(problem);
    const marks = marksOf(vmName, network, claimed);
    const entry = claims.claims.entries.get(claimKey);
    if (typeof entry === "string") return say(`IPAMClaim ${name} cannot be read: ${entry}`);
    if (entry !== undefined) {
      if (entry.isDeleting) return;
      if (entry.ownerUid !== owner.uid)
        return say(
          `IPAMClaim ${name} belongs to another owner, of which uid is ${entry.ownerUid ?? "not set"}: delete it if it is left over`,
        );
      if (entry.interfaceHash !== undefined && entry.interfaceHash !== marks.interfaceHash)
        return say(
          `IPAMClaim ${name} belongs to another network of the VM, of which the name differs only in characters that the claim's name cannot have: rename one of them`,
        );
      if (entry.network !== wanted)
        return say(
          typeof network.source === "string"
            ? `network ${network.name} was changed to ${wanted} while the VM runs, and IPAMClaim ${name} has addresses of ${entry.network}: restart the VM, which gets new addresses then, or change it back`
            : `network ${network.name} is ${wanted} now, and IPAMClaim ${name} has addresses of ${entry.network}: stop the VM and delete the claim, or change it back`,
        );
      this.#said.delete(`${vmi.uid}/${network.name}`);
      const { interfaceHash, requestHash, pools } = entry;
      const isMarked = isDeepStrictEqual({ interfaceHash, requestHash, pools }, marks);
      return isMarked ? undefined : this.#mark(claimKey, entry, marks, signal);
    }
    if (hasStarted(vmi) && network.plugin !== undefined)
      return say(
        `network ${network.name} gets no IPAMClaim while the VM runs: KubeVirt cannot plug in an interface of the binding plugin ${network.plugin}, and one that the VM has already has another address. Restart the VM`,
      );
    const object = newClaim({ namespace, vm: vmName, network }, claimed, owner);
    await api.create(inNamespace(IPAM_CLAIMS, namespace), object, signal);
    logger.info({ claim: claimKey, network: wanted }, "a claim was made for a VM's interface");
  }

  /** A claim that kubevirt/ipam-extensions made, or whose VM has another ResourceClaim now: agents find it by its marks. */
  async #mark(claimKey: string, { uid }: ClaimEntry, marks: ClaimMarks, signal: AbortSignal): Promise<void> {
    const { api } = this.#context;
    const { namespace, name } = partsOf(claimKey);
    const resource = inNamespace(IPAM_CLAIMS, namespace);
    const claim = await readNow(api, resource, name, signal);
    if (claim === undefined || claim.metadata.uid !== uid) return;
    const metadata = { ...claim.metadata, ...marked(marks, parseIpamClaim(claim)) };
    await api.update(resource, { ...claim, metadata }, signal);
  }

  #ownerOf(key: string, vmi: VmiEntry): { readonly kind: string; readonly uid: string } | undefined {
    const vm = this.view.vms.entries.get(key);
    if (vmi.vmUid === undefined) return { kind: "VirtualMachineInstance", uid: vmi.uid };
    return vm?.uid === vmi.vmUid ? { kind: "VirtualMachine", uid: vm.uid } : undefined;
  }

  /** Once for each VMI and network, until it is right. */
  #say(key: string, { uid }: VmiEntry, { name: network }: VmNetwork, note: string): void {
    const said = `${uid}/${network}`;
    if (this.#said.get(said) === note) return;
    this.#said.set(said, note);
    const { namespace, name } = partsOf(key);
    this.#context.logger.warn(
      { vmi: key, network, reason: note },
      "an interface of a VM has no claim that it can use",
    );
    const regarding = { kind: "VirtualMachineInstance", namespace, name, uid } as const;
    this.#context.post({
      regarding,
      reason: "InterfaceClaimRefused",
      action: "MakeClaim",
      note,
      subject: network,
    });
  }
}
