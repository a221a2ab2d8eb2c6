import { readdir } from "node:fs/promises";
import { basename, join } from "node:path";
import { type AllocationRecord, deviceNamesOf } from "../../src/records/allocation-record.ts";
import { portKey } from "../../src/records/port-record.ts";
import { readRecords } from "../../src/records/records.ts";
import type { ChurnNode } from "./churn-node.ts";
import { readLeases } from "./leases.ts";
import { type LivingPod, VAIN_INTERFACE } from "./living-pod.ts";
import type { SwitchView } from "./switch-view.ts";

/**
 * What differs between what a node's living pods should have and what there is, one sentence each: ports with their
 * settings, flows, leases, QoS rows, directories, device-info files and records, all of them exactly.
 */
export async function differences(churned: ChurnNode, view: SwitchView): Promise<readonly string[]> {
  const { node, leaseDirectory } = churned;
  const pods = [...churned.pods, ...churned.residents];
  const attached = pods.flatMap((pod) =>
    pod.interfaces
      .filter(({ name }) => pod.sandbox.attached.has(name))
      .map((wanted) => ({
        ...{ pod, wanted, key: `${basename(pod.hostPath)}@${wanted.name}` },
        lease: `${pod.sandbox.containerId}@${wanted.name}`,
      })),
  );
  const ports = view.ports.filter((port) => port.node === node.name);
  const records = await readRecords(node.recordsDirectory);
  const ambiguous = ambiguousAllocations(churned, records.allocations);
  return [
    ...compare(
      "ports",
      ports.map(
        (port) =>
          `${port.allocationId}@${port.interfaceName} of ${port.containerId} socket ${port.socket} tag ${port.tag} cir ${port.cir} secured ${port.secured}`,
      ),
      attached.map(({ pod, wanted, key }) => {
        const socket = join(pod.hostPath, wanted.name, "vhost.sock");
        const { tag, cir, secured = false } = wanted.network;
        return `${key} of ${pod.sandbox.containerId} socket ${socket} tag ${tag} cir ${cir} secured ${secured}`;
      }),
    ),
    ...compare("flows of ports that are gone", view.strayFlows, []),
    ...compare(
      "leases",
      await readLeases(leaseDirectory),
      attached.filter(({ wanted }) => wanted.network.addressed === true).map(({ lease }) => lease),
    ),
    ...compare(
      "QoS rows",
      view.qosRows.filter((owner) => owner === node.name),
      attached.filter(({ wanted }) => wanted.network.cir !== undefined).map(() => node.name),
    ),
    ...compare(
      "directories",
      await entries(node.root),
      pods.map(({ hostPath }) => basename(hostPath)),
      ambiguous.map(({ id }) => id),
    ),
    ...(await Promise.all(pods.map((pod) => directoryDifferences(pod)))).flat(),
    ...compare(
      "allocation records",
      records.allocations.map(({ id }) => id),
      pods.map(({ hostPath }) => basename(hostPath)),
      ambiguous.map(({ id }) => id),
    ),
    ...compare(
      "port records",
      records.ports.map(portKey),
      attached.map(({ key }) => key),
    ),
    ...compare(
      "device-info files of devices",
      await entries(join(node.deviceInfoDirectory, "dp")),
      pods.flatMap(({ interfaces }) => interfaces.map(({ device }) => deviceInfoFile(device))),
      ambiguous.flatMap((record) => deviceNamesOf(record).map(deviceInfoFile)),
    ),
    ...compare(
      "device-info files of attachments",
      await entries(join(node.deviceInfoDirectory, "cni")),
      attached.map(
        ({ pod, wanted }) =>
          `tests-vhostuser-${wanted.network.name}-${pod.sandbox.containerId}_${wanted.name}`,
      ),
    ),
  ];
}

const deviceInfoFile = (device: string): string => `vhostuser-sockets-${device}-device.json`;

/** Those on disk that no living pod was given and that may stay all the same. */
function ambiguousAllocations(
  churned: ChurnNode,
  records: readonly AllocationRecord[],
): readonly AllocationRecord[] {
  const living = [...churned.pods, ...churned.residents];
  const own = new Set(living.map(({ hostPath }) => basename(hostPath)));
  const given = records.filter(({ id }) => own.has(id));
  return records.filter((record) => !own.has(record.id) && churned.isAmbiguous(record, given));
}

/** Directories of its devices, and of the interfaces that were ever attached; nothing else. */
async function directoryDifferences({
  hostPath,
  interfaces,
  sandbox,
}: LivingPod): Promise<readonly string[]> {
  const there = await entries(hostPath);
  const needed = interfaces.flatMap(({ name, device }) =>
    sandbox.attached.has(name) ? [name, device] : [device],
  );
  const allowed = new Set([VAIN_INTERFACE, ...interfaces.flatMap(({ name, device }) => [name, device])]);
  return [
    ...needed.filter((name) => !there.includes(name)).map((name) => `missing: directory ${hostPath}/${name}`),
    ...there.filter((name) => !allowed.has(name)).map((name) => `left over: directory ${hostPath}/${name}`),
  ];
}

/** @param may be there or not */
function compare(
  what: string,
  is: readonly string[],
  should: readonly string[],
  may: readonly string[] = [],
): string[] {
  const left = [...is];
  const missing = should.filter((item) => {
    const at = left.indexOf(item);
    if (at >= 0) left.splice(at, 1);
    return at < 0;
  });
  return [
    ...missing.map((item) => `missing of the ${what}: ${item}`),
    ...left.filter((item) => !may.includes(item)).map((item) => `left over of the ${what}: ${item}`),
  ];
}

async function entries(directory: string): Promise<string[]> {
  return (await readdir(directory).catch(() => [])).sort();
}
