import { requireCommitted } from "../../../protocols/ovsdb/transaction.ts";
import { mapValue } from "../../../protocols/ovsdb/values.ts";
import { mapInChunks } from "../../../sync/map-in-chunks.ts";
import type { PortInspection, PortState, Traffic } from "../../port.ts";
import type { OvsContext } from "../database.ts";
import {
  bridgePortsTable,
  type CountedInterfaceRow,
  countedInterfaceTable,
  type InterfaceRow,
  interfaceTable,
  type PortRow,
  portTable,
  SERVER_PATH,
  VHOST_CLIENT,
  VHOST_SERVER,
} from "../tables.ts";
import { OWNER, readOwner, SOCKET_KEY } from "./marks.ts";

/** {@link Dataplane.listPorts}. */
export async function listPorts(context: OvsContext, signal: AbortSignal): Promise<readonly PortState[]> {
  const ports = await readOwnPorts(context, interfaceTable, signal);
  return ports.map(({ bridge, port, row }) => readPortState(bridge, port, row));
}

/**
 * {@link Dataplane.inspectPorts}: from the columns `status` and `statistics`, which the switch writes every five
 * seconds (`other_config:stats-update-interval`).
 */
export async function inspectPorts(
  context: OvsContext,
  signal: AbortSignal,
): Promise<readonly PortInspection[]> {
  const ports = await readOwnPorts(context, countedInterfaceTable, signal);
  return ports.map(({ bridge, port, row }) => ({
    ...readPortState(bridge, port, row),
    ...(row && inspect(row)),
  }));
}

/** Rows that are parsed in one round of the event loop: with counters, a row takes up to 0.1 ms. */
const AT_ONCE = 50;

/**
 * This node's ports, in one transaction, so that no port is seen half: each with the name of its bridge, empty where
 * none holds it, and without its Interface row while a transaction of others is half done.
 */
async function readOwnPorts<Row extends InterfaceRow>(
  context: OvsContext,
  interfaces: Pick<typeof interfaceTable, "select"> & { parse(row: unknown): Row },
  signal: AbortSignal,
): Promise<readonly { readonly bridge: string; readonly port: PortRow; readonly row: Row | undefined }[]> {
  const bridgeQuery = bridgePortsTable.select();
  const mark = mapValue({ owner: OWNER, node: context.node });
  const portQuery = portTable.select(["external_ids", "includes", mark]);
  const ofTypes = [VHOST_CLIENT, VHOST_SERVER].map((type) => interfaces.select(["type", "==", type]));
  const operations = [bridgeQuery, portQuery, ...ofTypes].map(({ operation }) => operation);
  const [bridges, ports, ...results] = requireCommitted(
    operations,
    await context.client.transact(operations, signal),
  );
  const bridgeOf = new Map(
    bridgeQuery.read(bridges).flatMap((bridge) => bridge.ports.map((port) => [port, bridge.name])),
  );
  const found = results.flatMap(({ rows }) => rows);
  const rows = await mapInChunks(found, AT_ONCE, (row) => interfaces.parse(row));
  const rowOf = new Map(rows.map((row) => [row._uuid, row]));
  return portQuery.read(ports).map((port) => ({
    bridge: bridgeOf.get(port._uuid) ?? "",
    port,
    row: rowOf.get(port.interfaces[0] ?? ""),
  }));
}

/** What the rows of a port say about it; without its Interface row that is little. */
export function readPortState(bridge: string, port: PortRow, row: InterfaceRow | undefined): PortState {
  const mtu = row && mtuOf(row);
  const error = row && errorOf(row);
  return {
    name: port.name,
    bridge,
    socketPath: row?.options.get(SERVER_PATH) ?? row?.external_ids.get(SOCKET_KEY) ?? "",
    owner: readOwner(port.external_ids, row?.external_ids ?? new Map()),
    link: row?.link_state === "up" ? "up" : "down",
    connected: row?.status.get("status") === "connected",
    ...(mtu === undefined ? {} : { mtu }),
    ...(row?.type === VHOST_SERVER ? { socketFile: port.name } : {}),
    ...(error === undefined ? {} : { error }),
  };
}

/** The MTU in force; the switch reports 0 until a guest is connected, and then only the request is known. */
export function mtuOf(row: InterfaceRow): number | undefined {
  return row.mtu !== undefined && row.mtu > 0 ? row.mtu : row.mtu_request;
}

/**
 * The switch's own words on a port it could not make. It refuses some names (`ovs-netdev`, `gre_sys`) without an
 * error in the database: ofport is -1 then.
 */
export function errorOf(row: InterfaceRow): string | undefined {
  if (row.error !== undefined && row.error !== "") return row.error;
  return row.ofport !== undefined && row.ofport < 0
    ? "the switch gave no reason (ofport is -1; see the log of ovs-vswitchd)"
    : undefined;
}

/** Pure: what an Interface row says beyond the port's state. */
export function inspect({
  status,
  statistics,
}: Pick<CountedInterfaceRow, "status" | "statistics">): Omit<PortInspection, keyof PortState> {
  const connected = status.get("status") === "connected";
  const rings = whole(status.get("num_of_vrings"));
  const numaNode = whole(status.get("numa"));
  const drops = [...statistics].filter(([name, count]) => /_drop(s|ped)$/.test(name) && count > 0);
  return {
    // A ring for each direction.
    ...(connected && rings !== undefined ? { queuePairs: Math.floor(rings / 2) } : {}),
    ...(connected && numaNode !== undefined ? { numaNode } : {}),
    // What the switch receives is what the guest sends.
    ...(statistics.has("rx_packets")
      ? { traffic: { fromGuest: traffic(statistics, "rx"), toGuest: traffic(statistics, "tx") } }
      : {}),
    ...(drops.length > 0 ? { drops: Object.fromEntries(drops) } : {}),
  };
}

function traffic(statistics: ReadonlyMap<string, number>, side: "rx" | "tx"): Traffic {
  const read = (what: string) => statistics.get(`${side}_${what}`) ?? 0;
  return { packets: read("packets"), bytes: read("bytes"), dropped: read("dropped") };
}

function whole(text: string | undefined): number | undefined {
  return text !== undefined && /^\d+$/.test(text) ? Number(text) : undefined;
}
