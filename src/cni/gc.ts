import { removeAttachment } from "../attachment/remove-attachment.ts";
import { attachmentFields } from "../logging/fields.ts";
import type { PortRecord } from "../records/port-record.ts";
import type { CniContext } from "./cni-context.ts";
import { releaseAddresses } from "./ipam/release-addresses.ts";
import { runIpam } from "./ipam/run-ipam.ts";
import { ipamType, type NetworkConfig } from "./network-config.ts";
import type { RawRequest } from "./request.ts";

/**
 * GC: removes every attachment of this network that the runtime does not name (CNI spec 1.1.0), and has the IPAM
 * plugin do the same. The list has an old, wrong name that libcni still sends; without either key nothing may be
 * removed. Goes on when something fails, and tells of all of it at the end.
 */
export async function gc(
  config: NetworkConfig,
  raw: RawRequest,
  context: CniContext,
  signal: AbortSignal,
): Promise<void> {
  const valid = config["cni.dev/valid-attachments"] ?? config["cni.dev/attachments"];
  if (!valid) return;
  const keep = new Set(valid.map(({ containerID, ifname }) => `${containerID}/${ifname}`));
  const errors: unknown[] = [];
  const attempt = (work: () => Promise<unknown>) => work().catch((error: unknown) => errors.push(error));
  for (const record of context.node.records.ports.list()) {
    if (record.network !== config.name || keep.has(`${record.containerId}/${record.interfaceName}`)) continue;
    await attempt(() => collect(record, raw, context, signal));
  }
  const type = ipamType(config);
  if (type !== undefined) {
    await attempt(() => runIpam({ type, verb: "GC", env: raw.env, stdin: raw.stdin }, raw.delegate));
  }
  if (errors.length > 0) throw errors.length === 1 ? errors[0] : new AggregateError(errors, describe(errors));
}

async function collect(
  record: PortRecord,
  raw: RawRequest,
  context: CniContext,
  signal: AbortSignal,
): Promise<void> {
  const { containerId } = record;
  const turn = { containerId, what: `GC of interface ${record.interfaceName}`, signal };
  await context.turns.run(turn, async () => {
    const left = await removeAttachment(context.node, record, signal);
    if (left !== undefined) throw left;
    context.logger.info(attachmentFields(record), "collected by GC");
    await releaseAddresses(record, context, raw.delegate);
  });
}

function describe(errors: readonly unknown[]): string {
  return `GC: ${errors.map((error) => (error instanceof Error ? error.message : String(error))).join("; ")}`;
}
