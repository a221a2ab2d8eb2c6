import * as z from "zod";
import type { DeviceReport } from "../dra/dra-context.ts";
import type { Failure } from "../failure/failure.ts";
import { present } from "../names/present.ts";
import type { NodeEvent } from "../observe/events/event.ts";
import type { InterfaceRecord } from "./interface-record.ts";
import type { FailingDel } from "./pending-dels.ts";
import type { CniResult } from "./run-network.ts";

/** What the API takes of `data` (resource.k8s.io/v1, AllocatedDeviceStatus), and of addresses. */
const DATA_MAX_BYTES = 10 * 1024;
const IPS_MAX = 16;

/** CNI spec, section 5, "Success"; read leniently, for it is shown and no more. */
const resultSchema = z.looseObject({
  interfaces: z
    .array(z.looseObject({ name: z.string(), mac: z.string().optional(), sandbox: z.string().optional() }))
    .catch([]),
  ips: z.array(z.looseObject({ address: z.string(), interface: z.number().optional() })).catch([]),
});

/** The reason of the condition `Ready`. */
export function readyReason(problem: Failure | undefined): string {
  return problem === undefined ? "NetworkInterfaceReady" : "NetworkInterfaceNotReady";
}

/**
 * What the status of a claim says of an interface.
 * @param problem why its ADD failed
 * @param stuck a DEL that fails for long
 * @returns undefined for one that nothing is to be said of
 */
export function reportOf(
  { pool, device, shareID, ifName, attachments, released }: InterfaceRecord,
  problem: Failure | undefined,
  stuck: FailingDel | undefined,
): DeviceReport | undefined {
  const { since, result } = attachments.find(({ state }) => state === "added") ?? {};
  const conditions = stuck && [{ type: "DelFailing", problem: stuck.failure, since: stuck.since }];
  const of = present({ pool, device, shareID, conditions });
  if (!released && problem === undefined && since !== undefined && result !== undefined) {
    const data = Buffer.byteLength(JSON.stringify(result)) > DATA_MAX_BYTES ? undefined : result;
    return { ...of, made: present({ since, data, networkData: networkDataOf(ifName, result) }) };
  }
  const reason = (released ? undefined : problem) ?? stuck?.failure;
  return reason && { ...of, problem: reason };
}

/** An event about the pod of an interface. @param what does not work, after the interface */
export function eventAbout(
  { pod, ifName, network }: InterfaceRecord,
  reason: "InterfaceFailed" | "InterfaceNotRemoved",
  action: string,
  what: string,
  problem: Failure,
): NodeEvent {
  const note = `Interface ${ifName} of network ${network.name} ${what}: ${problem.message}`;
  return { regarding: { kind: "Pod", ...pod }, reason, action, note, subject: ifName };
}

/** Addresses of a result of ADD, and what plugins have made on the host. */
export function partsOf(result: CniResult): {
  readonly addresses: string[];
  readonly hostInterfaces: string[];
} {
  const { interfaces, ips } = resultSchema.parse(result);
  return {
    addresses: ips.map(({ address }) => address),
    hostInterfaces: interfaces.flatMap(({ name, sandbox }) => (sandbox ? [] : [name])),
  };
}

/** MAC and addresses of the interface in the pod, not of those on the host. */
function networkDataOf(ifName: string, result: CniResult): object {
  const { interfaces, ips } = resultSchema.parse(result);
  const index = interfaces.findIndex(({ name, sandbox }) => name === ifName && Boolean(sandbox));
  const own = ips.filter(
    (ip) => ip.interface === index || (ip.interface === undefined && interfaces.length === 0),
  );
  const addresses = [...new Set(own.map(({ address }) => address))].slice(0, IPS_MAX);
  return present({
    interfaceName: ifName,
    hardwareAddress: interfaces[index]?.mac || undefined,
    ips: addresses.length === 0 ? undefined : addresses,
  });
}
