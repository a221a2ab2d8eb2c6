import { removeAttachment } from "../attachment/remove-attachment.ts";
import { attachmentFields } from "../logging/fields.ts";
import type { CniContext } from "./cni-context.ts";
import type { NetworkConfig } from "./network-config.ts";

/**
 * GC: removes every attachment of this network that the runtime does not name (CNI spec 1.1.0). The list has an
 * old, wrong name that libcni still sends; without either key nothing may be removed.
 */
export async function gc(config: NetworkConfig, context: CniContext, signal: AbortSignal): Promise<void> {
  const valid = config["cni.dev/valid-attachments"] ?? config["cni.dev/attachments"];
  if (valid === undefined) return;
  const keep = new Set(valid.map(({ containerID, ifname }) => `${containerID}/${ifname}`));
  const errors: Error[] = [];
  for (const record of context.node.records.ports.list()) {
    if (record.network !== config.name || keep.has(`${record.containerId}/${record.interfaceName}`)) continue;
    const { containerId } = record;
    const left = await context.turns.run<Error | undefined>(
      { containerId, what: `GC of interface ${record.interfaceName}`, signal },
      () => removeAttachment(context.node, record, signal),
      (busy) => busy,
    );
    if (left === undefined) context.logger.info(attachmentFields(record), "collected by GC");
    else errors.push(left);
  }
  if (errors.length > 0) throw errors.length === 1 ? errors[0] : new AggregateError(errors, "GC left ports");
}
