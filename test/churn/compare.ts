import { readdir } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { portName } from "../../src/names/port-name.ts";
import { type AllocationRecord, deviceNamesOf } from "../../src/records/allocation-record.ts";
import { portKey } from "../../src/records/port-record.ts";
import { readRecords } from "../../src/records/records.ts";
import { DRIVER } from "../stand-in/dra/claim-object.ts";
import type { ChurnNode } from "./churn-node.ts";
import type { ClaimPods, ClaimPort } from "./claim-pods.ts";
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
  const { claimed, unresolved } = claimPorts(churned.claims);
  const ports = view.ports.filter((port) => port.node === node.name);
  const records = await readRecords(node.recordsDirectory);
  const ambiguous = ambiguousAllocations(churned, records.allocations);
  const allocations = [
    ...pods.map(({ hostPath }) => basename(hostPath)),
    ...claimed.map(({ allocationId }) => allocationId),
  ];
  const prepared = [...new Set(claimed.map(({ pod }) => pod.claim.uid))];
  return [
    ...unresolved,
    ...compare(
      "ports",
      ports.map(
        (port) =>
          `${port.allocationId}@${port.interfaceName} of ${port.containerId} socket ${port.socket} tag ${port.tag} cir ${port.cir} secured ${port.secured}`,
      ),
      [
        ...attached.map(({ pod, wanted, key }) => {
          const socket = join(pod.hostPath, wanted.name, "vhost.sock");
          const { tag, cir, secured = false } = wanted.network;
          return `${key} of ${pod.sandbox.containerId} socket ${socket} tag ${tag} cir ${cir} secured ${secured}`;
        }),
        ...claimed.map((port) => {
          const { tag, cir, secured = false } = port.pod.network;
          const socket = join(port.directory, "vhost.sock");
          return `${claimPortKey(port)} of claim-${port.pod.claim.uid} socket ${socket} tag ${tag} cir ${cir} secured ${secured}`;
        }),
      ],
    ),
    ...compare("flows of ports that are gone", view.strayFlows, []),
    ...compare("leases", await readLeases(leaseDirectory), [
      ...attached.filter(({ wanted }) => wanted.network.addressed === true).map(({ lease }) => lease),
      ...claimed
        .filter(({ pod }) => pod.network.addressed === true)
        .map((port) => `claim-${port.pod.claim.uid}@${portName(port.allocationId, port.interfaceName)}`),
    ]),
    ...compare(
      "QoS rows",
      view.qosRows.filter((owner) => owner === node.name),
      [...attached.map(({ wanted }) => wanted.network), ...claimed.map(({ pod }) => pod.network)]
        .filter(({ cir }) => cir !== undefined)
        .map(() => node.name),
    ),
    ...compare(
      "directories",
      await entries(node.root),
      allocations,
      ambiguous.map(({ id }) => id),
    ),
    ...(await Promise.all(pods.map((pod) => directoryDifferences(pod)))).flat(),
    ...(await Promise.all(claimed.map((port) => claimDirectoryDifferences(port)))).flat(),
    ...compare(
      "allocation records",
      records.allocations.map(({ id }) => id),
      allocations,
      ambiguous.map(({ id }) => id),
    ),
    ...compare("port records", records.ports.map(portKey), [
      ...attached.map(({ key }) => key),
      ...claimed.map(claimPortKey),
    ]),
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
    ...compare(
      "CDI files",
      await entries(node.cdiDirectory),
      prepared.map((uid) => `${DRIVER}-socket_${uid}.json`),
    ),
    ...compare(
      "device metadata",
      await entries(join(node.directory, "kubelet/plugins", DRIVER, "dra-device-metadata")),
      prepared.map((uid) => `${uid}_net.json`),
    ),
  ];
}

const claimPortKey = ({ allocationId, interfaceName }: ClaimPort): string =>
  `${allocationId}@${interfaceName}`;

/** What the claims of living pods should have, as the runtime finds it. */
function claimPorts(claims: ClaimPods | undefined) {
  try {
    return { claimed: claims?.ports() ?? [], unresolved: [] };
  } catch (error) {
    return { claimed: [], unresolved: [`missing for the runtime: ${String(error)}`] };
  }
}

async function claimDirectoryDifferences({
  directory,
  interfaceName,
}: ClaimPort): Promise<readonly string[]> {
  return compare("claim's directories", await entries(dirname(directory)), [interfaceName]);
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
  return records.filter(
    (record) =>
      record.holder.kind === "device-plugin" && !own.has(record.id) && churned.isAmbiguous(record, given),
  );
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
