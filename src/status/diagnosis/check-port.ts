import type { TracedInterface } from "../shape.ts";
import { broken, type LinkFinding, ok } from "./link.ts";

/** Whether the switch runs and has the port as it was asked for. */
export function checkPort(one: TracedInterface): LinkFinding {
  const { port, portUnknown, portName, bridge, differences = [] } = one;
  if (one.switch?.ready === false) {
    return broken(
      `the switch does not serve bridge ${bridge}: ${one.switch.reason}`,
      "the switch is down, or the bridge is not as it must be",
      "put that right (vhostuserctl doctor checks the switch); ports come back by themselves",
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
      first ?? `port ${portName} does not exist in the switch`,
      "it was deleted (ovs-vsctl del-port, a new database) or its name was taken, or VPP has just restarted",
      "the daemon makes it again in a moment; if it does not come back, its log says why. Another owner's port must be removed first",
    );
  }
  if (port.error !== undefined) {
    return broken(
      `port ${port.name} failed: ${port.error}`,
      "the switch took the port and could not make it",
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
