import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { parseAllDocuments } from "yaml";
import * as z from "zod";
import type { VirtualMachineInstance } from "../stand-in/virt-launcher/vmi.ts";
import { EXAMPLES } from "./network.ts";

const vmSchema = z.object({
  metadata: z.object({ name: z.string(), namespace: z.string() }),
  spec: z.object({
    template: z.object({
      metadata: z.looseObject({ annotations: z.record(z.string(), z.string()).optional() }).optional(),
      spec: z.custom<VirtualMachineInstance["spec"]>((value) => typeof value === "object" && value !== null),
    }),
  }),
});

/** The objects of a file in deploy/examples that have a kind. */
export async function exampleObjects(file: string, kind: string): Promise<readonly object[]> {
  const objects = parseAllDocuments(await readFile(join(EXAMPLES, file), "utf8")).map((one) => one.toJS());
  return objects.filter((each) => each.kind === kind);
}

/** The VirtualMachineInstance that KubeVirt makes of a VM in deploy/examples, unmodified. */
export async function exampleVmi(file = "vm.yaml"): Promise<VirtualMachineInstance> {
  const [first] = await exampleObjects(file, "VirtualMachine");
  const vm = vmSchema.parse(first);
  const annotations = vm.spec.template.metadata?.annotations;
  return {
    metadata: { ...vm.metadata, ...(annotations === undefined ? {} : { annotations }) },
    spec: vm.spec.template.spec,
  };
}

/** What a smaller VM asks for. */
export interface SmallVm {
  readonly name: string;
  /** Of its vhost-user interfaces, in order: `net1` and so on; default one interface without a MAC. */
  readonly mac?: string | readonly string[];
  readonly hugepages?: string;
  /** Virtual processors, and a queue of each interface for each of them; default 1. */
  readonly queues?: number;
}

/** A VM of 256 MiB with one vhost-user interface or more, for machines that hold several. */
export function smallVmi(vm: SmallVm): VirtualMachineInstance {
  const interfaces = [vm.mac].flat().map((macAddress, index) => ({
    name: `net${index + 1}`,
    ...(macAddress === undefined ? {} : { macAddress }),
  }));
  const queues = vm.queues ?? 1;
  return {
    metadata: { name: vm.name, namespace: "tests" },
    spec: {
      architecture: "amd64",
      domain: {
        cpu: { cores: queues },
        machine: { type: "q35" },
        memory: {
          guest: "256Mi",
          ...(vm.hugepages === undefined ? {} : { hugepages: { pageSize: vm.hugepages } }),
        },
        devices: {
          ...(queues === 1 ? {} : { networkInterfaceMultiqueue: true }),
          interfaces: [
            { name: "default", masquerade: {} },
            ...interfaces.map((one) => ({ ...one, binding: { name: "vhostuser" } })),
          ],
        },
      },
      networks: [
        { name: "default", pod: {} },
        ...interfaces.map(({ name }) => ({ name, multus: { networkName: "vhostuser-network" } })),
      ],
    },
  };
}

/** The same VM with its sockets by claims of a template, without Multus (KubeVirt's gate NetworkDevicesWithDRA). */
export function withClaims(vmi: VirtualMachineInstance): VirtualMachineInstance {
  const networks = vmi.spec.networks ?? [];
  const claimed = networks.filter(({ multus }) => multus !== undefined);
  return {
    ...vmi,
    spec: {
      ...vmi.spec,
      networks: networks.map(({ name, multus, ...network }) =>
        multus === undefined
          ? { name, ...network }
          : { name, resourceClaim: { claimName: name, requestName: "socket" } },
      ),
      resourceClaims: claimed.map(({ name }) => ({ name, resourceClaimTemplateName: "vhostuser" })),
    },
  };
}
