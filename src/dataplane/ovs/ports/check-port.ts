import { Failure } from "../../../failure/failure.ts";
import { mapValue } from "../../../protocols/ovsdb/values.ts";
import type { PortRequest } from "../../port.ts";
import { type OvsContext, readRows } from "../database.ts";
import { settingProblem } from "../misconfiguration.ts";
import { securedPort } from "../security/secured-ports.ts";
import { settingDifferences } from "../settings/cells.ts";
import { limitMarks } from "../settings/guest-limit.ts";
import {
  type BridgeRow,
  bridgeOfPort,
  bridgeTable,
  type InterfaceRow,
  interfaceTable,
  type PortRow,
  portTable,
  type QosRow,
  qosTable,
  SERVER_PATH,
  type SwitchRow,
  switchTable,
} from "../tables.ts";
import { errorOf, mtuOf } from "./list-ports.ts";
import { hasMarks, interfaceMarks, isOurs, isSameAttachment } from "./marks.ts";
import { socketColumns } from "./write-port.ts";

/** All that has to be known of the switch to decide about one port, read in one transaction; the holder in a second. */
export interface PortView {
  readonly switch: SwitchRow;
  readonly bridges: readonly BridgeRow[];
  /** The port of that name, of any owner, with its bridge and its (first) interface. */
  readonly port: PortRow | undefined;
  readonly bridge: BridgeRow | undefined;
  readonly interface: InterfaceRow | undefined;
  /** Interfaces on the same socket under another name. */
  readonly rivals: readonly InterfaceRow[];
  /** QoS rows that we made for a port of that name, whether one refers to them or not. */
  readonly qos: readonly QosRow[];
}

/** @throws Failure dataplane-misconfigured where the database is empty; dataplane-* */
export async function readPortView(
  { client }: Pick<OvsContext, "client">,
  { name, socketPath, owner }: PortRequest,
  signal: AbortSignal,
): Promise<PortView> {
  const [[switchRow], bridges, [port], interfaces, sameSocket, qos] = await readRows(
    client,
    [
      switchTable.select(),
      bridgeTable.select(),
      portTable.select(["name", "==", name]),
      interfaceTable.select(["name", "==", name]),
      interfaceTable.select(["options", "includes", mapValue({ [SERVER_PATH]: socketPath })]),
      qosTable.select(["external_ids", "includes", mapValue(limitMarks(owner.node, name))]),
    ],
    signal,
  );
  if (switchRow === undefined) {
    throw new Failure({
      code: "dataplane-misconfigured",
      what: "the switch's database is empty",
      where: "table Open_vSwitch",
      fix: "start ovs-vswitchd, or run ovs-vsctl init",
    });
  }
  const [[holder]] = port === undefined ? [[]] : await readRows(client, [bridgeOfPort(port)], signal);
  return {
    switch: switchRow,
    bridges,
    port,
    bridge: holder,
    interface: interfaces.find((row) => port?.interfaces.includes(row._uuid)),
    rivals: sameSocket.filter((row) => row.name !== name),
    qos,
  };
}

/** {@link Dataplane.checkPort}. */
export async function checkPort(
  context: OvsContext,
  request: PortRequest,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const found = portDifferences(await readPortView(context, request, signal), request);
  const secured = securedPort(request);
  // The flows of a port that is missing or wrong are no further difference.
  if (secured === undefined || found.length > 0) return found;
  return context.security.check(request.bridge, secured, signal);
}

/** Pure: what of the view is not as asked, one sentence each. */
export function portDifferences(view: PortView, request: PortRequest): string[] {
  const { port, interface: row } = view;
  const name = `port ${request.name}`;
  if (port === undefined || row === undefined) return [`${name} does not exist in the switch`];
  if (!isSameAttachment(port.external_ids, request.owner)) {
    const isOther = isOurs(port.external_ids, request.owner.node);
    return [`${name} belongs to ${isOther ? "another allocation" : "another program"}`];
  }
  const found: string[] = [];
  const compare = (what: string, is: unknown, asked: unknown) => {
    if (is !== asked) found.push(`${name} has ${what} ${is ?? "none"}, asked was ${asked ?? "none"}`);
  };
  compare("bridge", view.bridge?.name, request.bridge);
  const socket = socketColumns(request);
  compare("type", row.type, socket.type);
  compare("socket", row.options.get(SERVER_PATH), socket.options[SERVER_PATH]);
  if (request.mtu !== undefined) compare("MTU", mtuOf(row), request.mtu);
  for (const { what, is, asked } of settingDifferences(request.settings, port, row, view.qos)) {
    compare(what, is, asked);
  }
  if (!hasMarks(row.external_ids, interfaceMarks(request))) {
    found.push(`${name} has other external_ids than its owner's`);
  }
  for (const rival of view.rivals) found.push(`${name} shares its socket with port ${rival.name}`);
  const problem = settingProblem(view.switch, request);
  if (problem !== undefined) found.push(problem.message);
  const error = errorOf(row);
  if (error !== undefined) found.push(`${name} failed: ${error}`);
  return found;
}
