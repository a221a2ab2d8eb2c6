import { GUEST_CMDLINE } from "../guest/image.ts";
import { exampleVmi } from "./example-vm.ts";
import { GUEST_IMAGE, KERNEL_BOOT } from "./kubevirt-guest.ts";

/** Namespace of the tests' VMs. */
export const VMS = "tests";

/** What a VM's specification says of its networks; its interface `net1` is the vhost-user one. */
export interface VmNetworks {
  readonly interfaces: readonly object[];
  readonly networks: readonly object[];
  readonly resourceClaims?: readonly object[];
}

/** The pod's network, and `net1` on a network of Multus. @param macAddress left out, KubeVirt and the sidecar choose */
export function onNetwork(networkName: string, macAddress?: string): VmNetworks {
  const net1 = { name: "net1", binding: { name: "vhostuser" } };
  return {
    interfaces: [
      { name: "default", masquerade: {} },
      macAddress === undefined ? net1 : { ...net1, macAddress },
    ],
    networks: [
      { name: "default", pod: {} },
      { name: "net1", multus: { networkName } },
    ],
  };
}

/** Those of a VM in deploy/examples. */
export async function networksOfExample(file: string): Promise<VmNetworks> {
  const { domain, networks = [], resourceClaims = [] } = (await exampleVmi(file)).spec;
  return { interfaces: domain.devices?.interfaces ?? [], networks, resourceClaims };
}

/** A VirtualMachine of 256 MiB, if possible on another node than the other ones, which boots the image of the guest. */
export function vmManifest(name: string, { interfaces, ...networks }: VmNetworks): object {
  const labels = { lab: "vm" };
  const term = { topologyKey: "kubernetes.io/hostname", labelSelector: { matchLabels: labels } };
  return {
    ...{ apiVersion: "kubevirt.io/v1", kind: "VirtualMachine" },
    metadata: { name, namespace: VMS },
    spec: {
      runStrategy: "Always",
      template: {
        metadata: { labels },
        spec: {
          ...{ terminationGracePeriodSeconds: 0, ...networks },
          architecture: process.arch === "arm64" ? "arm64" : "amd64",
          affinity: {
            podAntiAffinity: {
              preferredDuringSchedulingIgnoredDuringExecution: [{ weight: 100, podAffinityTerm: term }],
            },
          },
          domain: {
            ...{ cpu: { cores: 1 }, memory: { guest: "256Mi" }, devices: { interfaces } },
            firmware: {
              kernelBoot: {
                kernelArgs: GUEST_CMDLINE,
                container: { image: GUEST_IMAGE, imagePullPolicy: "IfNotPresent", ...KERNEL_BOOT },
              },
            },
          },
        },
      },
    },
  };
}
