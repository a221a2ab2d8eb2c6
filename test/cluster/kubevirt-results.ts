import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import manifest from "../../package.json" with { type: "json" };
import { PROJECT } from "./kubernetes-parts.ts";
import type { KubeVirtRig } from "./kubevirt-rig.ts";
import type { KubeVirtVm } from "./kubevirt-vm.ts";

/** Where the results are written. */
const FILE = join(PROJECT, "dist/kubevirt.json");

/** The versions of everything that takes part; the VM runs. */
export async function versionsOf(rig: KubeVirtRig, vm: KubeVirtVm): Promise<Record<string, string>> {
  const { kubectl } = rig;
  const node = (field: string) =>
    kubectl(`get nodes --output jsonpath='{.items[0].status.nodeInfo.${field}}'`);
  const hypervisor = await vm.virsh("version");
  const versionOf = (what: string) => new RegExp(`^${what}: (.*)$`, "m").exec(hypervisor)?.[1] ?? "";
  const [multus = ""] = await rig.onNodes(
    "/opt/cni/bin/multus --version 2>&1 || /opt/cni/bin/multus-shim --version 2>&1",
  );
  const [ovs = ""] = await rig.onSwitches("ovs-vswitchd --version");
  return {
    "kube-vhostuser": manifest.version,
    kubernetes: await node("kubeletVersion"),
    containerd: await node("containerRuntimeVersion"),
    multus: multus.trim().split("\n")[0] ?? "",
    kubevirt: await kubectl(
      "-n kubevirt get kubevirt kubevirt --output jsonpath='{.status.observedKubeVirtVersion}'",
    ),
    libvirt: versionOf("Using library"),
    qemu: versionOf("Running hypervisor"),
    openvswitch: ovs.trim().split("\n").join(", "),
    linux: await node("kernelVersion"),
  };
}

/** Writes them as JSON to dist/kubevirt.json. */
export async function writeResults(results: object): Promise<void> {
  await mkdir(dirname(FILE), { recursive: true });
  await writeFile(FILE, `${JSON.stringify(results, undefined, 2)}\n`);
}
