import { createHash } from "node:crypto";
import { vmOfLauncher } from "./virt-launcher.ts";

/** A MAC address that a NIC may have, not multicast and not all zero, in lower case with colons; else undefined. */
export function parseUnicastMac(text: string): string | undefined {
  const mac = text.toLowerCase().replaceAll("-", ":");
  if (!/^[0-9a-f][02468ace](:[0-9a-f]{2}){5}$/.test(mac)) return undefined;
  return mac === "00:00:00:00:00:00" ? undefined : mac;
}

/** A locally administered unicast MAC that is the same for the same seed on every node. */
export function deriveMacAddress(seed: string): string {
  const bytes = createHash("sha256").update(seed).digest().subarray(0, 6);
  bytes[0] = ((bytes[0] ?? 0) & 0xfc) | 0x02;
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join(":");
}

/** A pod whose interface needs a MAC. */
export interface MacOwner {
  readonly namespace: string;
  readonly podName: string;
  /** Network and address of the interface, where IPAM gave one. */
  readonly address?: string | undefined;
}

/**
 * What a pod's MACs are derived from: the VM's name, so that they stay when the VM restarts or migrates, each with a new
 * pod; else the pod's. Where KubeVirt's VM has a name that Kubernetes may have cut, two VMs could have the same: then the
 * address, which no other has, or the pod's whole name.
 */
export function macSeed({ namespace, podName, address }: MacOwner): string {
  const vm = vmOfLauncher(podName);
  // No namespace holds a blank: no pod's seed is like a VM's.
  if (vm?.isComplete === true) return `VM ${namespace}/${vm.name}`;
  return (vm && address && `address ${address}`) ?? `${namespace}/${podName}`;
}
