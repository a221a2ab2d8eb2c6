import type { PortRequest } from "../port.ts";
import type { OvsContext } from "./context.ts";
import { hasMarks, interfaceMarks, isOurs, isSameAttachment } from "./marks.ts";
import { errorOf, mtuOf } from "./port-state.ts";
import { SERVER_PATH, VHOST_CLIENT } from "./rows.ts";
import { readView, type View } from "./view.ts";

/** {@link Dataplane.checkPort}. */
export async function checkPort(
  context: OvsContext,
  request: PortRequest,
  signal: AbortSignal,
): Promise<readonly string[]> {
  return differences(await readView(context.client, request.name, request.socketPath, signal), request);
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
  compare("type", row.type, VHOST_CLIENT);
  compare("socket", row.options.get(SERVER_PATH), request.socketPath);
  if (request.mtu !== undefined) compare("MTU", mtuOf(row), request.mtu);
  if (!hasMarks(row.external_ids, interfaceMarks(request.owner))) {
    found.push(`${name} has other external_ids than its owner's`);
  }
  for (const rival of view.rivals) found.push(`${name} shares its socket with port ${rival.name}`);
  const error = errorOf(row);
  if (error !== undefined) found.push(`${name} failed: ${error}`);
  return found;
}
