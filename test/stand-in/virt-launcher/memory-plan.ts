import type { VirtualMachineInstance } from "./vmi.ts";
import { node, type XmlNode } from "./xml-tree.ts";

/** Everything of a domain that follows from the VMI's memory and CPU requests. */
export interface MemoryPlan {
  readonly bytes: number;
  readonly maxMemory?: XmlNode | undefined;
  readonly backing?: XmlNode | undefined;
  readonly numa?: XmlNode | undefined;
  readonly numatune?: XmlNode | undefined;
  /** Per-vCPU states where CPUs can be plugged. */
  readonly vcpus?: XmlNode | undefined;
  /** The virtio-mem device where memory can be plugged. */
  readonly device?: XmlNode | undefined;
}

/** KubeVirt's CPU topology of the guest; `vcpus` counts those that can be plugged, `current` doesn't. */
export function cpuTopology(vmi: VirtualMachineInstance) {
  const { cpu, resources } = vmi.spec.domain;
  const { cores = 0, sockets = 0, threads = 0, maxSockets } = cpu ?? {};
  if (cores + sockets + threads === 0) {
    const quantity = Number(resources?.limits?.["cpu"] ?? resources?.requests?.["cpu"] ?? 1);
    return { sockets: quantity, cores: 1, threads: 1, vcpus: quantity, current: quantity };
  }
  const perSocket = (cores || 1) * (threads || 1);
  const now = sockets || 1;
  const most = maxSockets ?? now;
  return {
    sockets: most,
    cores: cores || 1,
    threads: threads || 1,
    vcpus: most * perSocket,
    current: now * perSocket,
  };
}

/** The memory layout that KubeVirt chooses: none, hugepages with or without memfd, NUMA mapped or made up. */
export function planMemory(vmi: VirtualMachineInstance, hostNumaNodes: number): MemoryPlan {
  const { cpu, memory, resources } = vmi.spec.domain;
  const bytes = parseQuantity(memory?.guest ?? resources?.requests?.["memory"] ?? "128Mi");
  const { vcpus, current } = cpuTopology(vmi);
  const plan: MemoryPlan = { bytes, ...hotplug(vmi, bytes), vcpus: vcpuStates(vcpus, current) };
  const { hugepages } = memory ?? {};
  if (hugepages === undefined) return plan;
  const wantsMemfd =
    vmi.metadata.annotations?.["kubevirt.io/memfd"] !== "false" && vmi.spec.architecture !== "s390x";
  const source = wantsMemfd ? node("source", { type: "memfd" }) : undefined;
  if (cpu?.numa?.guestMappingPassthrough !== undefined) {
    return { ...plan, ...mappedNuma(bytes, vcpus, parseQuantity(hugepages.pageSize), hostNumaNodes, source) };
  }
  const cell = node("cell", { id: 0, cpus: `0-${vcpus - 1}`, memory: bytes / 1024, unit: "KiB" });
  return {
    ...plan,
    backing: node("memoryBacking", {}, [node("hugepages"), source]),
    numa: wantsMemfd ? node("numa", {}, [cell]) : plan.numa,
  };
}

function mappedNuma(
  bytes: number,
  vcpus: number,
  pageSize: number,
  nodes: number,
  source: XmlNode | undefined,
): Pick<MemoryPlan, "backing" | "numa" | "numatune"> {
  const ids = [...Array(nodes).keys()];
  const share = Math.ceil(bytes / nodes / pageSize) * pageSize;
  const cpusOf = (id: number) => [...Array(vcpus).keys()].filter((vcpu) => vcpu % nodes === id).join(",");
  const sizeOf = (id: number) => (id === nodes - 1 ? bytes - share * (nodes - 1) : share);
  const distances = (id: number) =>
    node(
      "distances",
      {},
      ids.map((other) => node("sibling", { id: other, value: other === id ? 10 : 20 })),
    );
  return {
    backing: node("memoryBacking", {}, [
      node(
        "hugepages",
        {},
        ids.map((id) => node("page", { size: pageSize, unit: "b", nodeset: id })),
      ),
      source,
      node("allocation", { mode: "immediate" }),
    ]),
    numa: node(
      "numa",
      {},
      ids.map((id) => node("cell", { id, cpus: cpusOf(id), memory: sizeOf(id), unit: "b" }, [distances(id)])),
    ),
    numatune: node("numatune", {}, [
      node("memory", { mode: "strict", nodeset: ids.join(",") }),
      ...ids.map((id) => node("memnode", { cellid: id, mode: "strict", nodeset: id })),
    ]),
  };
}

/** Memory that can be plugged: a virtio-mem device on node 0, which needs a NUMA cell. */
function hotplug(
  vmi: VirtualMachineInstance,
  bytes: number,
): Pick<MemoryPlan, "maxMemory" | "numa" | "device"> {
  const { maxGuest } = vmi.spec.domain.memory ?? {};
  if (maxGuest === undefined || parseQuantity(maxGuest) <= bytes) return {};
  const most = parseQuantity(maxGuest);
  const { vcpus } = cpuTopology(vmi);
  const cell = node("cell", { id: 0, cpus: `0-${vcpus - 1}`, memory: bytes / 1024, unit: "KiB" });
  return {
    maxMemory: node("maxMemory", { unit: "b" }, String(most)),
    numa: node("numa", {}, [cell]),
    device: node("memory", { model: "virtio-mem" }, [
      node("target", {}, [
        node("size", { unit: "b" }, String(most - bytes)),
        node("node", {}, "0"),
        node("block", { unit: "b" }, String(2 * 1024 * 1024)),
        node("requested", { unit: "b" }, "0"),
      ]),
    ]),
  };
}

function vcpuStates(vcpus: number, current: number): XmlNode | undefined {
  if (vcpus === current) return undefined;
  const states = [...Array(vcpus).keys()].map((id) =>
    node("vcpu", { id, enabled: id < current ? "yes" : "no", hotpluggable: id < current ? "no" : "yes" }),
  );
  return node("vcpus", {}, states);
}

const UNITS: Readonly<Record<string, number>> = {
  "": 1,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
};

function parseQuantity(quantity: string | number): number {
  const match = /^(\d+)([A-Za-z]*)$/.exec(String(quantity));
  const unit = UNITS[match?.[2] ?? ""];
  if (match?.[1] === undefined || unit === undefined) throw new Error(`not a quantity: ${quantity}`);
  return Number(match[1]) * unit;
}
