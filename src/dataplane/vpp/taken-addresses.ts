import { Failure } from "../../failure/failure.ts";
import type { VppConnection } from "../../protocols/vpp-api/connection.ts";
import { dumpInterfaces } from "../../protocols/vpp-api/messages.ts";
import type { VppContext } from "./context.ts";
import { NORMAL } from "./host-routes.ts";
import { isOfNode, parseMark } from "./mark.ts";
import { type Path, type RoutedState, readStaticNeighbors } from "./routed-state.ts";
import { type Address, addressKey, hostPrefix, printAddress, type Routing } from "./routing.ts";

/** Who has an address already, and what makes it free. */
interface Holder {
  readonly name: string;
  readonly cure: string;
}

/** A routed port that asks for addresses, by what VPP knows it by. */
interface Asking {
  readonly name: string;
  readonly index: number;
}

/** @throws Failure port-conflict where one of the guest's addresses is routed to somebody else */
export async function refuseTaken(
  context: VppContext,
  connection: VppConnection,
  port: Asking,
  { hosts, vrf }: Pick<Routing, "hosts" | "vrf">,
  { routes }: Pick<RoutedState, "routes">,
  signal: AbortSignal,
): Promise<void> {
  for (const host of hosts) {
    for (const path of routes.get(addressKey(host)) ?? []) {
      const holder = await holderOf(context, connection, port, { host, vrf, path }, signal);
      if (holder === undefined) continue;
      throw new Failure({
        code: "port-conflict",
        what: `address ${printAddress(host)} of VRF ${vrf} is routed to ${holder.name} already`,
        where: `port ${port.name}`,
        fix: `let nobody else in VRF ${vrf} have the guest's address; ${holder.cure}`,
      });
    }
  }
}

/** Undefined where it is this port, or what an interface that is gone has left. */
async function holderOf(
  { node }: VppContext,
  connection: VppConnection,
  port: Asking,
  { host, vrf, path }: { readonly host: Address; readonly vrf: number; readonly path: Path },
  signal: AbortSignal,
): Promise<Holder | undefined> {
  const { type, sw_if_index } = path;
  const prefix = `${printAddress(host)}/${hostPrefix(host).len}`;
  const show = `vppctl show ${host.af === 0 ? "ip" : "ip6"} fib table ${vrf} ${prefix}`;
  if (type !== NORMAL) {
    return { name: "VPP itself", cure: `${show} tells by what VPP has it` };
  }
  if (sw_if_index === port.index) return undefined;
  const ask = { sw_if_index, name_filter_valid: false, name_filter: "" };
  const [row] = await connection.dump(dumpInterfaces, ask, signal);
  if (row === undefined) return undefined;
  const mark = parseMark(row.tag);
  if (mark === undefined || !isOfNode(mark, node)) {
    const remove = `vppctl ip route del ${prefix} table ${vrf} via ${row.interface_name}`;
    // VPP keeps apart what its command line and its API have made: neither takes away the other's.
    const cure = `if nothing needs the route, where ${show} says CLI: ${remove}; where it says API, by the client that made it, or with a restart of VPP`;
    return { name: `interface ${row.interface_name}`, cure };
  }
  // The number may be of a port that is newer than the route.
  const neighbors = await readStaticNeighbors(connection, sw_if_index, signal);
  if (!neighbors.has(addressKey(host))) return undefined;
  const remove = `vppctl delete vhost-user ${row.interface_name}`;
  return { name: `port ${mark.name}`, cure: `if the pod of port ${mark.name} is gone: ${remove}` };
}
