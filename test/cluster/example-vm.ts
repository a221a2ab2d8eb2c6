import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { parse } from "yaml";
import { z } from "zod";
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

/** The VirtualMachineInstance that KubeVirt makes of deploy/examples/vm.yaml, unmodified. */
export async function exampleVmi(file = "vm.yaml"): Promise<VirtualMachineInstance> {
  const vm = vmSchema.parse(parse(await readFile(join(EXAMPLES, file), "utf8")));
  const annotations = vm.spec.template.metadata?.annotations;
  return {
    metadata: { ...vm.metadata, ...(annotations === undefined ? {} : { annotations }) },
    spec: vm.spec.template.spec,
  };
}

/** What a smaller VM asks for. */
export interface SmallVm {
  readonly name: string;
  readonly mac: string;
  readonly hugepages?: string;
}

/** A VM of one vCPU and 256 MiB with one vhost-user interface, for machines that hold several. */
export function smallVmi(vm: SmallVm): VirtualMachineInstance {
  return {
    metadata: { name: vm.name, namespace: "tests" },
    spec: {
      architecture: "amd64",
      domain: {
        cpu: { cores: 1 },
        machine: { type: "q35" },
        memory: {
          guest: "256Mi",
          ...(vm.hugepages === undefined ? {} : { hugepages: { pageSize: vm.hugepages } }),
        },
        devices: {
          interfaces: [
            { name: "default", masquerade: {} },
            { name: "net1", binding: { name: "vhostuser" }, macAddress: vm.mac },
          ],
        },
      },
      networks: [
        { name: "default", pod: {} },
        { name: "net1", multus: { networkName: "vhostuser-network" } },
      ],
    },
  };
}
