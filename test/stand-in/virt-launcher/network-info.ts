import { createHash } from "node:crypto";
import { mkdir, rename, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import type { VirtualMachineInstance } from "./vmi.ts";

/** One element of Multus' annotation `k8s.v1.cni.cncf.io/network-status`. */
export interface NetworkStatus {
  readonly name: string;
  /** The pod interface's name. */
  readonly interface?: string;
  readonly mac?: string;
  readonly mtu?: number;
  readonly "device-info"?: unknown;
}

/** KubeVirt's name of a network's pod interface. */
export function podInterfaceName(vmi: VirtualMachineInstance, network: string): string {
  const known = vmi.status?.interfaces?.find((one) => one.name === network)?.podInterfaceName;
  if (known !== undefined) return known;
  const networks = vmi.spec.networks ?? [];
  const found = networks.find((one) => one.name === network);
  if (found === undefined) throw new Error(`the VMI has no network ${network}`);
  if (found.pod !== undefined || found.multus?.default === true) return "eth0";
  return `pod${createHash("sha256").update(network).digest("hex").slice(0, 11)}`;
}

/**
 * The text of the annotation `kubevirt.io/network-info`, from the network-status of the pod as virt-controller
 * reads it: for interfaces of the given bindings that Multus reported, sorted by network; empty without any.
 */
export function networkInfo(
  vmi: VirtualMachineInstance,
  statuses: readonly NetworkStatus[],
  bindings: readonly string[] = ["vhostuser"],
): string {
  const interfaces = [];
  for (const one of vmi.spec.domain.devices.interfaces ?? []) {
    if (one.binding === undefined || !bindings.includes(one.binding.name)) continue;
    const status = statuses.find((status) => status.interface === podInterfaceName(vmi, one.name));
    if (status === undefined) continue;
    const { mac, mtu, "device-info": deviceInfo } = status;
    interfaces.push({
      network: one.name,
      ...(deviceInfo === undefined ? {} : { deviceInfo }),
      ...(mac === undefined ? {} : { mac }),
      ...(mtu === undefined ? {} : { mtu }),
    });
  }
  if (interfaces.length === 0) return "";
  interfaces.sort((left, right) => (left.network < right.network ? -1 : 1));
  return JSON.stringify({ interfaces });
}

/** Puts the annotation's text into the downward API's file as kubelet does: replaced as a whole. */
export async function projectNetworkInfo(file: string, text: string): Promise<void> {
  await mkdir(dirname(file), { recursive: true });
  await writeFile(`${file}.next`, text);
  await rename(`${file}.next`, file);
}
