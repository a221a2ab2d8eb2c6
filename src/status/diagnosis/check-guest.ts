import type { TracedInterface } from "../shape.ts";
import { broken, type LinkFinding, ok, waiting } from "./link.ts";

/** connect(2) needs write permission. */
const GROUP_MAY_WRITE = 0o020;

/** Whether the socket is there, and open to the pool's group. */
export function checkSocket(one: TracedInterface): LinkFinding {
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
        "the pod put something else in its place; the switch follows no link there",
        "see what the pod's program does; delete the pod",
      );
  }
  const mode = socket.mode ?? 0;
  const groupWanted = ((ownership?.mode ?? 0) & GROUP_MAY_WRITE) !== 0;
  if (groupWanted && (mode & GROUP_MAY_WRITE) === 0) {
    return broken(
      `${socket.path} has mode ${mode.toString(8).padStart(4, "0")}, its group may not connect`,
      "the pod's program made it with another umask than 002, and the daemon has not opened it",
      "a running daemon does so within a second; its log says why if it cannot. A switch that runs as root does not need it",
    );
  }
  return ok(socket.path);
}

/** Whether a peer is connected. */
export function checkConnected({ port, places, socketServer, ownership }: TracedInterface): LinkFinding {
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
    `the socket is a dead one that a program left behind, another client holds it, or the switch's user may not connect (it needs to be root or in group ${ownership?.group ?? "of the pool"})`,
    `look for ${places?.socket.path ?? "the socket"} in the switch's log (ovs-vswitchd.log); check that the guest's memory is shared (memfd or hugepages)`,
  );
}

/** Whether the guest's driver runs its queues. */
export function checkLink({ port }: TracedInterface): LinkFinding {
  if (port?.link === "up") return ok("up");
  return waiting(
    "down",
    "the guest's driver has not started its queues: it boots, has no virtio-net driver, the interface is down in it, or its VM has migrated from a node whose switch was dead",
    "in the guest: ip link set dev <interface> up; for DPDK, bind the device and start the port; after such a migration wait, the daemon connects once more (docs/migration.md)",
  );
}

/** Whether there are queues to run. */
export function checkQueues({ port }: TracedInterface): LinkFinding {
  const pairs = port?.queuePairs;
  if (pairs === undefined) return { verdict: "unknown", what: "this switch has no such value" };
  if (pairs > 0) return ok(`${pairs} ${pairs === 1 ? "pair" : "pairs"}`);
  return waiting(
    "none",
    "the peer is connected and has brought no queues yet",
    "look again in some seconds; then at the log of QEMU or the DPDK program",
  );
}
