import { directoryInPod } from "../allocation/allocation.ts";
import { checkCniFile } from "../allocation/device-info.ts";
import { allocationDirectory, socketPath } from "../allocation/layout.ts";
import { Failure } from "../failure/failure.ts";
import { deriveMacAddress, macSeed, parseUnicastMac } from "../names/mac-address.ts";
import { portName } from "../names/port-name.ts";
import { present } from "../names/present.ts";
import { vmOfLauncher } from "../names/virt-launcher.ts";
import type { AllocationRecord } from "../records/allocation-record.ts";
import { type ClaimHolder, claimInterface } from "../records/claim-holder.ts";
import type { Addressing, AddressLease, PortRecord } from "../records/port-record.ts";
import { newestAllocationOf } from "../records/records.ts";
import type { CniContext } from "./cni-context.ts";
import type { FoundDevice } from "./find-device.ts";
import { portKeys } from "./network-keys.ts";
import { portSettingsOf } from "./port-settings-of.ts";
import type { AttachmentRequest } from "./request.ts";

/** What ADD is going to do. */
export interface AttachmentPlan {
  readonly allocation: AllocationRecord;
  readonly record: PortRecord;
  /** The interface's MAC, once it is known what IPAM gives. */
  readonly macFor: (ips: Addressing["ips"] | undefined) => string;
}

/** Turns a request and its device into the record of the attachment; changes nothing. */
export function planAttachment(
  request: AttachmentRequest,
  { device, claimed }: FoundDevice,
  context: CniContext,
): AttachmentPlan {
  const { config, records, pools } = context.node;
  const pod = `pod ${request.podNamespace}/${request.podName}`;
  const allocation = claimed ?? newestAllocationOf(device, records.allocations.list());
  if (claimed === undefined) refuseUnreadable(device, pod, context);
  if (allocation === undefined) {
    throw new Failure({
      code: "unknown-device",
      what: `no allocation on this node holds device ${device}`,
      where: `${pod}, interface ${request.interfaceName}`,
      fix: "delete the pod so that kubelet allocates again; the records directory may have been lost",
    });
  }
  const pool = pools.ofAllocation(allocation);
  if (pool === undefined) {
    throw new Failure({
      code: "invalid-config",
      what: `device ${device} belongs to pool ${allocation.pool}, which is no longer configured, and its switch is not there`,
      where: pod,
      fix: "put the pool back until its pods are gone",
    });
  }
  const { containerId } = request;
  const own = claimed?.holder.port;
  if (own !== undefined) refusePortKeys(request, own);
  const interfaceName = claimed === undefined ? request.interfaceName : claimInterface(claimed.holder);
  const where = `${pod}, interface ${interfaceName}`;
  const switchRoot = config.switchRoot ?? config.root;
  const macFor: AttachmentPlan["macFor"] = (ips) => chooseMac(request, own?.mac, ips);
  const record: PortRecord = present({
    allocationId: allocation.id,
    interfaceName,
    cniInterface: claimed && request.interfaceName,
    state: "attaching" as const,
    containerId,
    startedAtMs: request.raw.startedAtMs,
    bootId: records.bootId,
    device,
    pool: allocation.pool,
    portName: portName(allocation.id, interfaceName),
    bridge: own?.bridge ?? request.config.bridge ?? pool.config.dataplane.bridge,
    switchSocketPath: socketPath(allocationDirectory(switchRoot, allocation.id), interfaceName, where),
    podSocketPath: socketPath(directoryInPod(allocation, config.podRoot), interfaceName, where),
    mac: macFor(undefined),
    mtu: request.config.mtu ?? own?.mtu,
    settings:
      own?.settings ??
      portSettingsOf(request.config, request.args, {
        socketServer: allocation.socketServer ?? pool.config.socketServer,
        // Programs in other pods read their addresses from the pod's status.
        dhcp: pool.dataplane.capabilities.answersDhcp && vmOfLauncher(request.podName) !== undefined,
      }),
    lease: leaseOf(request),
    releases: [],
    deviceInfoFile: cniDeviceInfoFile(request, config.deviceInfoDirectory),
    network: request.config.name,
    netns: request.netns,
    podNamespace: request.podNamespace,
    podName: request.podName,
    podUid: request.podUid,
    createdAt: context.clock.now(),
  });
  return { allocation, record, macFor };
}

/**
 * The port of a claim is what its DeviceClass and parameters say, which an administrator may have limited: a network
 * gives it a MAC, an MTU and addresses.
 */
function refusePortKeys({ config }: AttachmentRequest, { isAddressed }: ClaimHolder["port"]): void {
  const asked = (Object.keys(portKeys) as (keyof typeof portKeys)[]).filter(
    (one) => config[one] !== undefined,
  );
  const key = asked[0] ?? (config.runtimeConfig?.bandwidth && "runtimeConfig.bandwidth");
  if (key !== undefined) {
    throw new Failure({
      code: "invalid-network-config",
      what: `${key} cannot be set for the port of a ResourceClaim`,
      where: `network ${config.name}`,
      fix: "let the claim's parameters or its DeviceClass set it",
    });
  }
  if (isAddressed) {
    throw new Failure({
      code: "invalid-network-config",
      what: "the ResourceClaim has addresses of its own, so its port cannot be a network's",
      where: `network ${config.name}`,
      fix: "remove ipam from the claim's parameters and let the network have it",
    });
  }
}

/** What ADD may get from an IPAM, recorded before it asks, so that the addresses are released whatever happens. */
function leaseOf({ config, raw, containerId }: AttachmentRequest): AddressLease | undefined {
  const type = config.ipam?.type;
  if (type === undefined) return undefined;
  return { containerId, type, request: { stdin: raw.stdin.toString("utf8"), env: { ...raw.env } } };
}

function cniDeviceInfoFile({ config }: AttachmentRequest, directory: string): string | undefined {
  const file = config.runtimeConfig?.CNIDeviceInfoFile ?? "";
  return file === "" ? undefined : checkCniFile(directory, file);
}

/** An older allocation of the device would give an interface that never connects. */
function refuseUnreadable(device: string, pod: string, { node }: CniContext): void {
  const { unreadable } = node.records.allocations;
  const found = unreadable.find(({ text }) => text.includes(`"${device}"`));
  if (found === undefined) return;
  throw new Failure({
    code: "record-unreadable",
    what: `the record of the allocation of device ${device} cannot be read: ${found.reason}`,
    where: `${pod}, file ${found.file}`,
    fix: "delete the pod so that kubelet allocates again, then remove the file and restart the daemon",
  });
}

/**
 * The interface's MAC: runtimeConfig.mac, CNI_ARGS, args.cni.mac, the network's own `mac`, in that order
 * (CNI conventions); else that of the claim, or one derived from VM or pod and interface: {@link macSeed}.
 * @param ips what IPAM gave, once it has
 */
function chooseMac(
  request: AttachmentRequest,
  ofClaim: string | undefined,
  ips: Addressing["ips"] = [],
): string {
  const { config } = request;
  const asked: readonly (readonly [string, string | undefined])[] = [
    ["runtimeConfig.mac", config.runtimeConfig?.mac],
    ["CNI_ARGS MAC", request.args["MAC"]],
    ["args.cni.mac", config.args?.cni?.mac],
    ["mac", config.mac],
  ];
  for (const [where, text] of asked) {
    if (text === undefined || text === "") continue;
    const mac = parseUnicastMac(text);
    if (mac === undefined) {
      throw new Failure({
        code: "invalid-network-config",
        what: `MAC address ${JSON.stringify(text)} is not a unicast address of six bytes`,
        where,
        fix: "write it as 02:00:00:00:00:01",
      });
    }
    return mac;
  }
  if (ofClaim !== undefined) return ofClaim;
  const [first] = ips;
  const owner = macSeed({
    namespace: request.podNamespace,
    podName: request.podName,
    address: first && `${config.name}/${first.address}`,
  });
  return deriveMacAddress(`${request.podName === "" ? request.containerId : owner}/${request.interfaceName}`);
}
