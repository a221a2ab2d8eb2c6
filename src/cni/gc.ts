import { removeAttachment } from "../attachment/remove-attachment.ts";
import { describeThrown, Failure, toFailure } from "../failure/failure.ts";
import { attachmentFields } from "../logging/fields.ts";
import { type PortRecord, portRecordName } from "../records/port-record.ts";
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
  if (errors.length > 0) throw errors.length === 1 ? errors[0] : severalFailures(errors, config);
}

async function collect(
  { containerId, interfaceName, createdAt }: PortRecord,
  raw: RawRequest,
  context: CniContext,
  signal: AbortSignal,
): Promise<void> {
  const turn = {
    key: containerId,
    where: `container ${containerId}`,
    what: `GC of interface ${interfaceName}`,
    signal,
  };
  await context.locks.run(turn, async () => {
    const record = context.node.records.ports.get(portRecordName(containerId, interfaceName));
    // Detached while we waited for the turn, and perhaps attached anew, of which the runtime's list knows nothing.
    if (record?.createdAt !== createdAt) return;
    // Nor does it of what was attached after the runtime had made the list, which is before it called.
    if (context.order.isTakenSince(record.switchSocketPath, raw.startedAtMs)) return;
    const left = await removeAttachment(context.node, record, signal);
    if (left !== undefined) throw left;
    context.logger.info(attachmentFields(record), "collected by GC");
    await releaseAddresses(record, context, raw.delegate);
  });
}

/** With the code that all have, so that a runtime still hears that it may try again. */
function severalFailures(errors: readonly unknown[], { name }: NetworkConfig): Failure {
  const codes = new Set(errors.map((error) => toFailure(error).code));
  const [code = "internal", ...others] = codes;
  return new Failure({
    code: others.length === 0 ? code : "internal",
    what: errors.map(describeThrown).join("; "),
    where: `GC of network ${name}`,
    fix: "what could not be removed is removed later, or by the next GC",
    cause: new AggregateError(errors),
  });
}
