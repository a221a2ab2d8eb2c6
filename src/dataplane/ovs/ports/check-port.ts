import type { PortRequest } from "../../port.ts";
import type { OvsContext } from "../database.ts";
import { settingProblem } from "../misconfiguration.ts";
import { securedPort } from "../security/secured-ports.ts";
import { settingDifferences } from "../settings/cells.ts";
import { SERVER_PATH } from "../tables.ts";
import { errorOf, mtuOf } from "./list-ports.ts";
import { hasMarks, interfaceMarks, isOurs, isSameAttachment } from "./marks.ts";
import { type PortView, readPortView } from "./port-view.ts";
import { socketColumns } from "./write-port.ts";

/** {@link Dataplane.checkPort}. */
export async function checkPort(
  context: OvsContext,
  request: PortRequest,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const found = portDifferences(await readPortView(context.client, request, signal), request);
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
