import type { PortRequest } from "../port.ts";
import type { OvsContext } from "./context.ts";
import { hasMarks, interfaceMarks, isOurs, isSameAttachment } from "./marks.ts";
import { socketColumns } from "./port-rows.ts";
import { errorOf, mtuOf } from "./port-state.ts";
import { SERVER_PATH } from "./rows.ts";
import { settingDifferences } from "./setting-differences.ts";
import { whySettingUnfit } from "./setting-fitness.ts";
import { securedPort } from "./settle-security.ts";
import { readView, type View } from "./view.ts";

/** {@link Dataplane.checkPort}. */
export async function checkPort(
  context: OvsContext,
  request: PortRequest,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const found = differences(await readView(context.client, request, signal), request);
  const secured = securedPort(request);
  // Of a port that is not there its flows are no news.
  if (secured === undefined || found.length > 0) return found;
  return context.security.check(request.bridge, secured, signal);
}

/** Pure: what of the view is not as asked. */
export function differences(view: View, request: PortRequest): string[] {
  const { port, interface: row } = view;
  const name = `port ${request.name}`;
  if (port === undefined || row === undefined) return [`${name} does not exist in the switch`];
  if (!isSameAttachment(port.external_ids, request.owner)) {
    const whose = isOurs(port.external_ids, request.owner.node) ? "another container" : "somebody else";
    return [`${name} belongs to ${whose}`];
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
  const unfit = whySettingUnfit(view.switch, request);
  if (unfit !== undefined) found.push(unfit.message);
  const error = errorOf(row);
  if (error !== undefined) found.push(`${name} failed: ${error}`);
  return found;
}
