import { Failure } from "../failure/failure.ts";
import { checkUnixPath } from "../names/unix-path.ts";
import type { PortRequest } from "./port.ts";

/** The frames that a switch's vhost-user ports can carry, in bytes without Ethernet header. */
export interface MtuLimits {
  readonly min: number;
  readonly max: number;
  /** What sets these limits, for example `OVS-DPDK`. */
  readonly of: string;
}

/**
 * Refuses a request that no switch could fulfil: a name, an owner, a path or an MTU out of bounds.
 * @throws Failure invalid-request, internal, path-too-long, directory-unsafe, port-failed
 */
export function checkPortRequest(request: PortRequest, node: string, limits: MtuLimits): void {
  const { name, mtu, owner } = request;
  if (!/^[A-Za-z0-9][A-Za-z0-9_.-]{0,14}$/.test(name)) {
    throw new Failure({
      code: "invalid-request",
      what: `${JSON.stringify(name)} cannot name a port: 1 to 15 letters, digits, '_', '.' or '-' are allowed`,
    });
  }
  if (owner.node !== node) {
    throw new Failure({
      code: "internal",
      what: `port ${name} is asked for node ${JSON.stringify(owner.node)}, this is ${JSON.stringify(node)}`,
    });
  }
  checkUnixPath(request.socketPath, `port ${name}`);
  if (mtu !== undefined && (!Number.isInteger(mtu) || mtu < limits.min || mtu > limits.max)) {
    throw new Failure({
      code: "port-failed",
      what: `MTU ${mtu} is outside ${limits.min} to ${limits.max}, which is what ${limits.of} can do`,
      where: `port ${name}`,
      fix: "change the MTU in the network configuration",
    });
  }
}
