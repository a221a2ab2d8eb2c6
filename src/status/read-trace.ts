import { readFile } from "node:fs/promises";
import { directoryInPod } from "../allocation/allocation.ts";
import { devicePluginFile, vhostUserDeviceInfoSchema } from "../allocation/device-info.ts";
import { socketPath } from "../allocation/layout.ts";
import { portRequest } from "../attachment/ensure-attachment.ts";
import { describeThrown, systemCode } from "../failure/failure.ts";
import { devicesOfPod, type PodDevices } from "../kubelet/pod-resources.ts";
import { type AllocationRecord, isOfClaim, resourceOf } from "../records/allocation-record.ts";
import type { PortRecord } from "../records/port-record.ts";
import { describeDevice, describeInterface, readSwitches, unattachedDevices } from "./describe-interface.ts";
import type { DeviceInfoStatus, InterfaceStatus, TraceAnswer, TracedInterface } from "./shape.ts";
import type { StatusSource } from "./status-source.ts";

/** Which pods are asked for; a namespace that is left out is any. */
export interface TraceQuery {
  readonly namespace?: string;
  readonly pod: string;
}

/** More than a pod can have: a trace of a whole node would cost too much. */
const MAX_INTERFACES = 64;

/** What kubelet says of the pods that are asked for. */
type Holders = { readonly pods: readonly PodDevices[] } | { readonly reason: string };

/** Traces the interfaces of the pods of a name, and their devices without an interface. */
export async function readTrace(
  source: StatusSource,
  query: TraceQuery,
  signal: AbortSignal,
): Promise<TraceAnswer> {
  const { context, clock } = source;
  const { config, records, pools } = context;
  const isAsked = (namespace: string, name: string) =>
    name === query.pod && (query.namespace === undefined || namespace === query.namespace);
  const kubelet = await readHolders(source, isAsked);
  const attached = records.ports.list().filter((record) => isAsked(record.podNamespace, record.podName));
  const asked = new Set(attached.flatMap((record) => pools.ofPort(record) ?? []));
  const switches = await readSwitches(asked, signal);
  const root = { root: config.root, rootProblem: await source.view.rootProblem() };
  const unattached = "reason" in kubelet ? [] : unattachedDevices(records, kubelet.pods);
  const interfaces = await Promise.all([
    ...attached.slice(0, MAX_INTERFACES).map(async (record): Promise<TracedInterface> => {
      const allocation = records.allocations.get(record.allocationId);
      const pool = pools.ofPort(record);
      const seen = describeInterface(root, record, allocation, pool && switches.get(pool.dataplane));
      return {
        ...seen,
        ...holding(kubelet, seen),
        ...(await ofDeviceInfo(source, allocation, record.device, record)),
        ...(await ofSwitch(source, record, signal)),
      };
    }),
    ...unattached.slice(0, MAX_INTERFACES).map(async (one): Promise<TracedInterface> => {
      const seen = describeDevice(root, one);
      const deviceInfo = await ofDeviceInfo(source, one.allocation, one.device);
      return { ...seen, ...holding(kubelet, seen), ...deviceInfo };
    }),
  ]);
  return { node: config.node, at: clock.now(), interfaces };
}

async function readHolders(
  source: StatusSource,
  isAsked: (namespace: string, name: string) => boolean,
): Promise<Holders> {
  try {
    const pods = await source.listPods();
    return { pods: pods.filter(({ podNamespace, podName }) => isAsked(podNamespace, podName)) };
  } catch (error) {
    return { reason: describeThrown(error) };
  }
}

function holding(
  kubelet: Holders,
  { pod, device, resource, claim }: InterfaceStatus,
): Pick<TracedInterface, "holder" | "holderUnknown"> {
  if ("reason" in kubelet) return { holder: "unknown", holderUnknown: kubelet.reason };
  const own = kubelet.pods.filter(
    ({ podNamespace, podName }) => podNamespace === pod.namespace && podName === pod.name,
  );
  // A claim is held by the pod that it was reserved for, as long as that is there.
  if (claim !== undefined) return { holder: own.length > 0 ? "held" : "not-held" };
  const isHeld = own
    .flatMap(devicesOfPod)
    .some((held) => (resource === undefined || held.resource === resource) && held.ids.includes(device));
  return { holder: isHeld ? "held" : "not-held" };
}

async function ofDeviceInfo(
  { context: { config } }: StatusSource,
  allocation: AllocationRecord | undefined,
  device: string,
  record?: PortRecord,
): Promise<Pick<TracedInterface, "deviceInfo">> {
  if (allocation === undefined) return {};
  if (isOfClaim(allocation)) {
    if (record?.state !== "attached") return {};
    const { inspectClaimFiles } = await import("../dra/inspect-claim-files.ts");
    return { deviceInfo: await inspectClaimFiles(allocation, record, config) };
  }
  const file = devicePluginFile(config.deviceInfoDirectory, resourceOf(allocation), device);
  const inPod = directoryInPod(allocation, config.podRoot);
  const ofDevice = await readDeviceInfo(file, socketPath(inPod, device, "device"));
  if (record?.deviceInfoFile === undefined) return { deviceInfo: { device: ofDevice } };
  const attachment = await readDeviceInfo(record.deviceInfoFile, record.podSocketPath);
  return { deviceInfo: { device: ofDevice, attachment } };
}

async function readDeviceInfo(file: string, path: string): Promise<DeviceInfoStatus> {
  try {
    const info = vhostUserDeviceInfoSchema.parse(JSON.parse(await readFile(file, "utf8")));
    const found = info["vhost-user"].path;
    if (found === path) return { file, state: "good" };
    return { file, state: "wrong", reason: `it names the socket ${found}, it should be ${path}` };
  } catch (error) {
    if (systemCode(error) === "ENOENT") return { file, state: "missing" };
    return { file, state: "wrong", reason: describeThrown(error) };
  }
}

async function ofSwitch(
  { context }: StatusSource,
  record: PortRecord,
  signal: AbortSignal,
): Promise<Pick<TracedInterface, "switch" | "differences">> {
  const pool = context.pools.ofPort(record);
  if (pool === undefined) return {};
  const { dataplane } = pool;
  const state = await dataplane.probe(record.bridge, signal);
  // The check would fail and be counted as an error.
  if (!state.ready) return { switch: { ready: false, reason: state.reason } };
  const check = dataplane.checkPort(portRequest(context, record), signal);
  const differences = await check.catch(() => undefined);
  return { switch: { ready: true }, differences: differences && [...differences] };
}
