// The chain of an interface, from kubelet's list of devices to the guest's queues. All checks are pure: what is wrong by what
// was read, with a likely cause and a cure. The links and their order are in link.ts.
import type { DeviceInfoStatus, InterfaceStatus, TracedInterface } from "../shape.ts";
import { checkDirectory, octal } from "./check-directory.ts";
import { broken, LINKS, type Link, type LinkFinding, type LinkName, ok, RECREATE, waiting } from "./link.ts";

const CHECKS: Readonly<Record<LinkName, (one: TracedInterface) => LinkFinding>> = {
  pod: checkPod,
  allocation: checkAllocation,
  directory: checkDirectory,
  "device-info": checkDeviceInfo,
  record: checkRecord,
  port: checkPort,
  socket: checkSocket,
  connected: checkConnected,
  link: checkLink,
  queues: checkQueues,
};

/** Pure: the links of an interface's chain up to the first that is not as it should be; the links that depend on it are left out. */
export function traceChain(one: TracedInterface): readonly Link[] {
  const chain: Link[] = [];
  for (const name of LINKS) {
    const link = { name, ...CHECKS[name](one) };
    chain.push(link);
    if (isBroken(link)) break;
  }
  return chain;
}

/** Whether a chain ends at this link. */
export function isBroken({ verdict }: Pick<Link, "verdict">): boolean {
  return verdict === "broken" || verdict === "waiting";
}

/** Time for CNI ADD to come after Allocate; the pod's other networks may be attached before. */
const STARTING_MS = 30_000;

/**
 * The first broken link of an interface as far as the status of the whole node shows it; undefined where no link is
 * broken. A pod that is just being made waits.
 * @param at milliseconds since the epoch
 */
export function brokenLink(one: InterfaceStatus, at: number): Link | undefined {
  const link = traceChain({ ...one, holder: "held" }).find(isBroken);
  const isStarting = one.state === "allocated" && at - one.createdAt < STARTING_MS;
  return link?.name === "record" && isStarting ? { ...link, verdict: "waiting" } : link;
}

/** Whether kubelet says that the pod has the device. */
function checkPod(one: TracedInterface): LinkFinding {
  const pod = `${one.pod.namespace}/${one.pod.name}`;
  const { claim } = one;
  const held = claim === undefined ? one.device : `claim ${claim.namespace}/${claim.name}`;
  switch (one.holder) {
    case "held":
      return ok(`${pod} holds ${held}`);
    case "unknown":
      return { verdict: "unknown", what: `kubelet cannot be asked: ${one.holderUnknown ?? "no reason"}` };
    case "not-held":
      return broken(
        `kubelet does not list ${held} for ${pod}`,
        "the pod has ended, or kubelet lost its list of devices (its checkpoint) and will not give it back",
        `wait for the daemon to remove the rest; if the pod still runs, ${RECREATE}`,
      );
  }
}

/** Whether the daemon remembers the Allocate. */
function checkAllocation(one: TracedInterface): LinkFinding {
  if (one.allocation !== undefined) return ok(`${one.allocation} for ${one.device}, pool ${one.pool}`);
  return broken(
    `no record of an allocation holds ${one.device}`,
    "its file in the records directory is torn or was removed; kubelet never repeats Allocate for a running pod",
    `run vhostuserctl doctor (records); then ${RECREATE}`,
  );
}

/** Whether Multus, and so KubeVirt, finds where the socket is; of a claim, whether the runtime and KubeVirt do. */
function checkDeviceInfo({ deviceInfo, claim }: TracedInterface): LinkFinding {
  if (deviceInfo === undefined) return ok("not checked");
  const { device, attachment } = deviceInfo;
  const describeFile = ({ file, state, reason }: DeviceInfoStatus) =>
    state === "missing" ? `${file} is not there` : `${file} is wrong: ${reason}`;
  if (claim !== undefined) {
    const bad = [device, attachment].find((one) => one !== undefined && one.state !== "good");
    if (bad === undefined) return ok("CDI file and device metadata");
    return broken(
      describeFile(bad),
      "the file that the daemon wrote for the claim was removed or changed; containers with the claim cannot start, or do not find the socket",
      "the daemon writes it again in its next pass; its log says why if it cannot",
    );
  }
  if (device.state !== "good") {
    return broken(
      describeFile(device),
      "the file that the daemon wrote at Allocate was removed or changed; Multus reads it when it attaches",
      "the daemon writes it again in a moment; its log says why if it cannot, for example because of another file in its place",
    );
  }
  if (attachment === undefined) return ok("of the device");
  if (attachment.state === "good") return ok("of the device and of the attachment");
  return broken(
    describeFile(attachment),
    "the file that the daemon wrote at CNI ADD was removed or changed; KubeVirt may have read it before",
    `if the VM does not start, ${RECREATE}`,
  );
}

/** Whether CNI ADD went through. */
function checkRecord(one: TracedInterface): LinkFinding {
  switch (one.state) {
    case "attached":
      return ok(`${one.name} attached to network ${one.network}`);
    case "allocated":
      if (one.claim !== undefined) {
        return broken(
          `no interface is attached for request ${one.claim.request} of claim ${one.claim.namespace}/${one.claim.name}`,
          "the claim is being prepared, or its preparation failed",
          "kubectl describe pod and the claim's status show the error; see the daemon's log",
        );
      }
      return broken(
        `no interface is attached for ${one.device}`,
        "CNI ADD has not been called for this device, or failed",
        "kubectl describe pod shows Multus' error; check that the network's annotation k8s.v1.cni.cncf.io/resourceName is this pool's resource, and the daemon's log",
      );
    case "attaching":
      return waiting(
        `${one.name} is being attached`,
        "a CNI ADD runs at the moment, or one was cut short and is about to be undone",
        "try again in some seconds; kubectl describe pod shows Multus' error",
      );
    default:
      return broken(
        `${one.name} is being detached (${one.state})`,
        "CNI DEL was called: the pod ends, or its sandbox was replaced",
        one.state === "releasing"
          ? "an IPAM plugin has yet to release its addresses; the daemon's log says why it fails"
          : "the switch has yet to remove the port; the daemon keeps retrying",
      );
  }
}

/** Whether the switch runs and has the port as it was asked for. */
function checkPort(one: TracedInterface): LinkFinding {
  const { port, portUnknown, portName, bridge, differences = [] } = one;
  if (one.switch?.ready === false) {
    return broken(
      `the switch does not serve bridge ${bridge}: ${one.switch.reason}`,
      "the switch is down, or the bridge is misconfigured",
      "repair that (vhostuserctl doctor checks the switch); ports come back by themselves",
    );
  }
  if (portUnknown !== undefined) {
    return broken(
      `port ${portName} is not known: ${portUnknown}`,
      "the switch's socket does not answer, or the pool left the configuration and its switch is gone",
      "vhostuserctl doctor checks the switch",
    );
  }
  const [first] = differences;
  if (port === undefined) {
    return broken(
      first ?? `the switch has no port ${portName} of this pod`,
      "it was deleted (ovs-vsctl del-port, a new database), another program has a port of this name, or VPP has just restarted",
      "the daemon makes it again in a moment; if it does not come back, its log says why. Another program's port must be removed first",
    );
  }
  if (port.error !== undefined) {
    return broken(
      `port ${port.name} failed: ${port.error}`,
      "the switch accepted the port and could not make it",
      "see the switch's log (ovs-vswitchd.log); hugepages and memory of the NUMA node are the usual reason",
    );
  }
  if (first !== undefined) {
    return broken(
      differences.join("; "),
      "another program changed the port",
      "the daemon repairs it in a moment; a value that comes back is set by another controller; the daemon's log says why it could not repair it",
    );
  }
  return ok(`${port.name} on bridge ${port.bridge}${port.mtu === undefined ? "" : `, MTU ${port.mtu}`}`);
}

/** connect(2) needs write permission. */
const GROUP_MAY_WRITE = 0o020;

/** Whether the socket is there, and open to the pool's group. */
function checkSocket(one: TracedInterface): LinkFinding {
  const { places, ownership, socketServer } = one;
  if (places === undefined) return ok("not checked");
  const { socket } = places;
  switch (socket.kind) {
    case "socket":
      break;
    case "missing":
      return socketServer === "switch"
        ? broken(
            `${socket.path} is not there`,
            "the switch has not made it, or makes its sockets in another directory than switchSockets says",
            "compare other_config:vhost-sock-dir with the pool's switchSockets; see the daemon's log",
          )
        : waiting(
            `${socket.path} is not there`,
            "the pod's program (QEMU, a DPDK application) has not made it: it does not run yet, has ended, or uses another path",
            `read the program's log; in the pod the path is ${one.podSocket}`,
          );
    default:
      return broken(
        `${socket.path} is no socket${socket.reason === undefined ? "" : `: ${socket.reason}`}`,
        "the pod replaced it; the switch follows no link there",
        "see what the pod's program does; delete the pod",
      );
  }
  const mode = socket.mode ?? 0;
  const groupWanted = ((ownership?.mode ?? 0) & GROUP_MAY_WRITE) !== 0;
  if (groupWanted && (mode & GROUP_MAY_WRITE) === 0) {
    return broken(
      `${socket.path} has mode ${octal(mode)}, its group may not connect`,
      "the pod's program made it with another umask than 002, and the daemon has not opened it",
      "a running daemon does so within a second; its log says why if it cannot. A switch that runs as root does not need it",
    );
  }
  return ok(socket.path);
}

/** Whether a peer is connected. */
function checkConnected({ port, places, socketServer, ownership }: TracedInterface): LinkFinding {
  if (port?.connected === true) return ok("the switch has a peer on the socket");
  if (socketServer === "switch") {
    return waiting(
      "no peer is connected",
      "the pod's DPDK program has not connected to the switch's socket",
      "read the program's log; it has to be a client (server=0)",
    );
  }
  return waiting(
    "the switch has no peer on the socket",
    `the socket is a dead one that a program left behind, its program accepts the connection and does not speak vhost-user, another client holds it, or the switch's user may not connect (it needs to be root or in group ${ownership?.group ?? "of the pool"})`,
    `look for ${places?.socket.path ?? "the socket"} in the switch's log (ovs-vswitchd.log); check that the guest's memory is shared (memfd or hugepages)`,
  );
}

/** Whether the guest's driver runs its queues. */
function checkLink({ port }: TracedInterface): LinkFinding {
  if (port?.link === "up") return ok("up");
  return waiting(
    "down",
    "the guest's driver has not started its queues: it boots, has no virtio-net driver, the interface is down in it, or its VM has migrated from a node whose switch was dead",
    "in the guest: ip link set dev <interface> up; for DPDK, bind the device and start the port; after such a migration wait, the daemon connects once more (docs/migration.md)",
  );
}

/** Whether there are queues to run. */
function checkQueues({ port }: TracedInterface): LinkFinding {
  const pairs = port?.queuePairs;
  if (pairs === undefined) return { verdict: "unknown", what: "this switch has no such value" };
  if (pairs > 0) return ok(`${pairs} ${pairs === 1 ? "pair" : "pairs"}`);
  return waiting(
    "none",
    "the peer is connected and has brought no queues yet",
    "look again in some seconds; then at the log of QEMU or the DPDK program",
  );
}
