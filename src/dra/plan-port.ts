import { directoryInPod } from "../allocation/allocation.ts";
import { allocationDirectory, socketPath } from "../allocation/layout.ts";
import { planAllocation } from "../allocation/make-allocation.ts";
import { REQUEST_ARGS } from "../claims/resources.ts";
import { portSettingsOf } from "../cni/port-settings-of.ts";
import { Failure, toFailure } from "../failure/failure.ts";
import { sandboxOfClaim } from "../ipam/release-addresses.ts";
import { deriveMacAddress, macSeed, parseUnicastMac } from "../names/mac-address.ts";
import { portName } from "../names/port-name.ts";
import { present } from "../names/present.ts";
import { vmOfLauncher } from "../names/virt-launcher.ts";
import type { Pool } from "../pools/pools.ts";
import type { ClaimAllocation } from "../records/allocation-record.ts";
import {
  type ClaimHolder,
  type ClaimIdentity,
  claimInterface,
  claimNameInPod,
} from "../records/claim-holder.ts";
import type { AddressLease, PortRecord } from "../records/port-record.ts";
import { type AllocatedClaim, type ClaimResult, refuseIn, whereOf } from "./claim.ts";
import type { Refuse } from "./cni-config.ts";
import { type DraContext, PLUGIN_TYPE } from "./dra-context.ts";
import { type PortParameters, portParameters, withinBandwidth } from "./port-config.ts";

/** What is to be made or adopted for a result. */
export interface PortPlan {
  readonly allocation: ClaimAllocation;
  /** As it is recorded, where it is. */
  readonly record: PortRecord;
  readonly isNew: boolean;
}

/**
 * Turns a result into the record of its port, and of its allocation if that is new; changes nothing.
 * @throws Failure `invalid-claim`, `path-too-long`, `setting-unsupported`
 */
export function planPort(
  claim: AllocatedClaim,
  result: ClaimResult,
  made: { readonly earlier: ClaimAllocation | undefined; readonly sequence: number },
  context: DraContext,
): PortPlan {
  const { node, clock } = context;
  const { earlier, sequence } = made;
  const createdAt = clock.now();
  const where = whereOf(claim, result);
  const identity = claimIdentity(claim, result);
  const pool = earlier === undefined ? poolFor(result, where, context) : node.pools.ofAllocation(earlier);
  if (pool === undefined) throw unknownDevice(result, where);
  const asked = portParameters(claim, result, pool.config.claims?.mayConfigure ?? []);
  const parameters = withinBandwidth(asked, result, where);
  if (parameters.allowPersistentIPs === true) requirePersistent(parameters, result, refuseIn(claim, result));
  const { pod } = identity;
  const defaults = {
    socketServer: earlier?.socketServer ?? pool.config.socketServer,
    dhcp: pool.dataplane.capabilities.answersDhcp && vmOfLauncher(pod.name) !== undefined,
  };
  const settings = settingsOf(parameters, defaults, where);
  const interfaceName = claimInterface(identity);
  const owner = macSeed({ namespace: pod.namespace, podName: pod.name });
  const seed = `${owner}/${claimNameInPod(identity)}/${interfaceName}`;
  const bridge = parameters.bridge ?? pool.config.dataplane.bridge;
  const mac = macOf(parameters, seed, where);
  const { mtu, ipam } = parameters;
  if (ipam?.type !== undefined && context.ipam === undefined) throw noPlugins(where);
  const { ifName } = parameters;
  const port = present({ bridge, mac, mtu, settings, ifName, isAddressed: ipam?.type !== undefined });
  const holder: ClaimHolder = { ...identity, port };
  const allocation: ClaimAllocation = earlier ?? {
    ...planAllocation(pool.config, holder, { createdAt, sequence }, settings.socketServer ?? "guest"),
    ...{ holder, pod: holder.pod },
  };
  const name = portName(allocation.id, interfaceName);
  const record: PortRecord = present({
    ...{ allocationId: allocation.id, interfaceName, state: "attaching" as const },
    // No runtime has a sandbox of this id, and no CNI network has a slash in its name: CNI's verbs leave the port alone.
    ...{ containerId: sandboxOfClaim(claim.uid), network: `resourceclaim/${claim.name}`, netns: "" },
    ...{ startedAtMs: clock.monotonic(), bootId: node.records.bootId },
    ...{ device: result.device, pool: allocation.pool, portName: name },
    ...pathsOf(allocation, context, where),
    ...{ bridge, mac, mtu, settings },
    lease: leaseOf(parameters, identity, { pool: allocation.pool, portName: name }),
    releases: [],
    ...{ podNamespace: pod.namespace, podName: pod.name, podUid: pod.uid },
    createdAt,
  });
  return { allocation, record, isNew: earlier === undefined };
}

/** Which result it is, as its allocation's record says. */
export function claimIdentity(
  claim: AllocatedClaim,
  { isAdminAccess: _, bandwidth: __, ...result }: ClaimResult,
): ClaimIdentity {
  const { namespace, name, uid, podClaimName, pod } = claim;
  return present({ kind: "claim" as const, namespace, name, uid, podClaimName, pod, ...result });
}

function poolFor({ slicePool, device }: ClaimResult, where: string, { node, poolOf }: DraContext): Pool {
  const pool = slicePool === node.config.node ? poolOf(device) : undefined;
  if (pool === undefined) throw unknownDevice({ slicePool, device }, where);
  return pool;
}

function noPlugins(where: string): Failure {
  return new Failure({
    code: "setting-unsupported",
    what: "this node's daemon has no IPAM plugins for claims",
    where,
    fix: "set dra.ipamPlugins in the daemon's configuration, or remove ipam; the guest may get its address by DHCP",
  });
}

function unknownDevice(
  { slicePool, device }: Pick<ClaimResult, "slicePool" | "device">,
  where: string,
): Failure {
  return new Failure({
    code: "invalid-claim",
    what: `this node has no device ${JSON.stringify(device)} of pool ${JSON.stringify(slicePool)} for claims`,
    where,
    fix: "delete the pod, so that the scheduler allocates from the node's devices of now; else configure the pool again",
  });
}

/** An IPAMClaim is for a network by its name, and one interface has its addresses. */
function requirePersistent({ name, ipam }: PortParameters, { index }: ClaimResult, refuse: Refuse): void {
  if (name === undefined || ipam?.type === undefined)
    throw refuse("allowPersistentIPs needs name and ipam", "add the network's name and its ipam");
  if (index > 0)
    throw refuse(
      "allowPersistentIPs is for one device, and the request has several",
      "write a request for each",
    );
}

/** @throws Failure `invalid-claim` for keys that contradict each other */
function settingsOf(
  parameters: PortParameters,
  defaults: Parameters<typeof portSettingsOf>[2],
  where: string,
): PortRecord["settings"] {
  try {
    return portSettingsOf(parameters, {}, defaults);
  } catch (error) {
    throw ofClaim(
      error,
      where,
      "correct the parameters of the claim or its DeviceClass; docs/cni.md says which keys can be combined",
    );
  }
}

function pathsOf(
  allocation: ClaimAllocation,
  { node: { config } }: DraContext,
  where: string,
): Pick<PortRecord, "switchSocketPath" | "podSocketPath"> {
  const name = claimInterface(allocation.holder);
  const onHost = allocationDirectory(config.switchRoot ?? config.root, allocation.id);
  const inPod = directoryInPod(allocation, config.podRoot);
  try {
    return {
      switchSocketPath: socketPath(onHost, name, where),
      podSocketPath: socketPath(inPod, name, where),
    };
  } catch (error) {
    throw ofClaim(
      error,
      where,
      "shorten the claim's name in the pod (spec.resourceClaims[].name), or the request's",
    );
  }
}

/** A path that does not exist: a pod has no network namespace yet when its claims are prepared. */
const NO_NETNS = "/claims-have-no-network-namespace";
/** The newest that the plugins of Debian 12 know. */
export const IPAM_CNI_VERSION = "1.0.0";

/**
 * What the IPAM plugin of a claim is asked with (CNI spec 1.1.0, section 4, "Delegated Plugins"), recorded before it is
 * asked. Plugins such as host-local keep addresses apart by the network's name, by default the pool's.
 */
function leaseOf(
  { ipam, name: network, allowPersistentIPs }: PortParameters,
  identity: ClaimIdentity,
  { pool, portName }: Pick<PortRecord, "pool" | "portName">,
): AddressLease | undefined {
  const type = ipam?.type;
  if (type === undefined) return undefined;
  const { namespace, name, uid } = identity.pod;
  const containerId = sandboxOfClaim(identity.uid);
  const env = {
    CNI_CONTAINERID: containerId,
    // The CNI project's plugins refuse more than 15 characters, which a request's name may have.
    CNI_IFNAME: portName,
    CNI_NETNS: NO_NETNS,
    CNI_ARGS: [
      `IgnoreUnknown=1;K8S_POD_NAMESPACE=${namespace};K8S_POD_NAME=${name};K8S_POD_UID=${uid}`,
      `${REQUEST_ARGS.claim}=${claimNameInPod(identity)};${REQUEST_ARGS.request}=${identity.request}`,
    ].join(";"),
  };
  const config = {
    ...{ cniVersion: IPAM_CNI_VERSION, name: network ?? pool, type: PLUGIN_TYPE },
    ...{ allowPersistentIPs, ipam },
  };
  return { containerId, type, request: { stdin: JSON.stringify(config), env } };
}

/** The same failure, in terms of the claim. */
function ofClaim(error: unknown, where: string, fix: string): Failure {
  const { code, what } = toFailure(error);
  return new Failure({
    code: code === "invalid-network-config" ? "invalid-claim" : code,
    what,
    where,
    fix,
    cause: error,
  });
}

function macOf({ mac: text }: PortParameters, seed: string, where: string): string {
  if (text === undefined || text === "") return deriveMacAddress(seed);
  const mac = parseUnicastMac(text);
  if (mac !== undefined) return mac;
  throw new Failure({
    code: "invalid-claim",
    what: `MAC address ${JSON.stringify(text)} is not a unicast address of six bytes`,
    where,
    fix: "write it as 02:00:00:00:00:01",
  });
}
