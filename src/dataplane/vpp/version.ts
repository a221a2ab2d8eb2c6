import { showVersion } from "../../protocols/vpp-api/messages.ts";
import type { VppContext } from "./context.ts";

/** {@link Dataplane.version}. */
export async function version(context: VppContext, signal: AbortSignal): Promise<string> {
  const connection = await context.client.connection(signal);
  const { version: release } = await connection.request(showVersion, {}, signal);
  return `VPP ${release}`;
}
