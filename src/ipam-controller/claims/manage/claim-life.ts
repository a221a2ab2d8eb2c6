import { claimName } from "../../../claims/claim-name.ts";
import type { ClaimEntry } from "../claims-view.ts";
import type { VmEntry, VmiEntry, VmNetwork } from "./vms-view.ts";

/** The VM and the VMI of a name; undefined if it does not exist. */
export interface VmOfName {
  readonly vm: VmEntry | undefined;
  readonly vmi: VmiEntry | undefined;
}

/** Phases in which an instance has not started its guest. */
const STARTING = ["", "Pending", "Scheduling", "Scheduled"];

/** Whether a VMI has started: its interfaces are plugged in and out while it runs. */
export function hasStarted({ phase }: VmiEntry): boolean {
  return !STARTING.includes(phase);
}

/**
 * Whether the life of a claim's owner is over, so that nothing holds the claim any more: the VM is gone or going, and its instance
 * is gone; where only the instance is left, it is going and has no pods. Another VM of the same name does not count. A claim that
 * is being deleted ends when its VM is stopped, too.
 */
export function isOver({ ownerKind, ownerUid, isDeleting }: ClaimEntry, { vm, vmi }: VmOfName): boolean {
  if (ownerUid === undefined) return false;
  const isEnding = vmi?.isDeleting === true && !vmi.hasActivePods;
  if (ownerKind === "VirtualMachineInstance") return vmi?.uid !== ownerUid || isEnding;
  if (ownerKind !== "VirtualMachine") return false;
  const isVm = vm?.uid === ownerUid;
  // An instance without an owner was orphaned by its VM.
  const isOurs = vmi !== undefined && (vmi.vmUid === undefined || vmi.vmUid === ownerUid);
  if (isVm) return (vm.isDeleting || isDeleting) && !isOurs;
  return !isOurs || isEnding;
}

/** Whether a VM that is there has the claim no longer: its interface was removed, or is on another network. */
export function isDropped(
  key: { readonly vm: string; readonly claim: string },
  claim: ClaimEntry,
  { vm, vmi }: VmOfName,
  networkOf: (network: VmNetwork) => string | undefined,
): boolean {
  if (claim.ownerUid !== (claim.ownerKind === "VirtualMachine" ? vm?.uid : vmi?.uid)) return false;
  const all = [...(vm?.networks ?? []), ...(vmi?.networks ?? [])];
  const own = all.filter(({ name }) => claimName(key.vm, name) === key.claim);
  if (own.length === 0) return true;
  if (vmi !== undefined && hasStarted(vmi)) return false;
  const networks = own.map(networkOf);
  return networks.every((network) => network !== undefined && network !== claim.network);
}
