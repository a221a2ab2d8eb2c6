import type { Guest } from "../guest/guest.ts";
import type { VmPod } from "./vm-pod.ts";

/** Everything from a pod's admission to its guest's shell. */
export async function startVm(vm: VmPod): Promise<Guest> {
  await vm.allocate();
  await vm.attach();
  await vm.launch();
  await vm.define();
  return vm.boot();
}

/** Everything from a pod's admission to where a migration can come in. */
export async function startTarget(vm: VmPod): Promise<void> {
  await vm.allocate();
  await vm.attach();
  await vm.launch();
  await vm.prepareAsTarget();
}

/** Ends a VM, or what it left behind where it has migrated, and deletes its pod. */
export async function endVm(vm: VmPod): Promise<void> {
  await vm.stop();
  await vm.detach();
  vm.remove();
}
