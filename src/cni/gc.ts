import { portLock } from "../attachment/port-lock.ts";
import { removeAttachment } from "../attachment/remove-attachment.ts";
import { describeThrown, Failure, toFailure } from "../failure/failure.ts";
import { runIpam } from "../ipam/plugin-ipam.ts";
import { leasesOf, releaseAddresses } from "../ipam/release-addresses.ts";
import { attachmentFields } from "../logging/fields.ts";
import { interfaceInSandbox, type PortRecord, portKey } from "../records/port-record.ts";
import type { CniContext } from "./cni-context.ts";
import type { NetworkConfig } from "./network-config.ts";
import { attachmentKey, type RawRequest } from "./request.ts";

/**
 * GC: removes every attachment of this network that the runtime does not name (CNI spec 1.1.0), and has the IPAM do the
 * same. The list has an old, wrong name that libcni still sends; without either key nothing may be removed. Continues
 * when something fails, and reports all of it at the end.
 */
export async function gc(
  config: NetworkConfig,
  raw: RawRequest,
  context: CniContext,
  signal: AbortSignal,
): Promise<void> {
  const valid = config["cni.dev/valid-attachments"] ?? config["cni.dev/attachments"];
  if (!valid) return;
  const keep = new Set(
    valid.map(({ containerID: containerId, ifname: interfaceName }) =>
      attachmentKey({ containerId, interfaceName }),
    ),
  );
  const errors: unknown[] = [];
  const attempt = (work: Promise<unknown>) => work.catch((error: unknown) => errors.push(error));
  for (const record of context.node.records.ports.list()) {
    const attachment = { containerId: record.containerId, interfaceName: interfaceInSandbox(record) };
    if (record.network !== config.name || keep.has(attachmentKey(attachment))) continue;
    const lock = portLock(record, `GC of interface ${record.interfaceName}`, signal);
    await attempt(context.locks.run(lock, () => collect(record, raw, context, signal)));
  }
  const type = config.ipam?.type;
  if (type !== undefined) await attempt(runIpam(type, "GC", raw, raw.delegate));
  if (errors.length > 0) throw errors.length === 1 ? errors[0] : severalFailures(errors, config);
}

async function collect(
  listed: PortRecord,
  raw: RawRequest,
  context: CniContext,
  signal: AbortSignal,
): Promise<void> {
  const record = context.node.records.ports.get(portKey(listed));
  // Meanwhile detached, and perhaps attached again, which the runtime's list does not know; nor does it what was attached
  // after the runtime had made it.
  if (record?.containerId !== listed.containerId || record.startedAtMs > raw.startedAtMs) return;
  const left = await removeAttachment(context.node, record, signal);
  if (left !== undefined) throw left;
  context.logger.info(attachmentFields(record), "removed by GC");
  for (const lease of leasesOf(record)) await releaseAddresses(record, lease, context, raw.delegate);
}

/** With the code that all have in common, so that a runtime still sees that it may try again. */
function severalFailures(errors: readonly unknown[], { name }: NetworkConfig): Failure {
  const [code = "internal", ...others] = new Set(errors.map((error) => toFailure(error).code));
  return new Failure({
    code: others.length === 0 ? code : "internal",
    what: errors.map(describeThrown).join("; "),
    where: `GC of network ${name}`,
    fix: "what could not be removed is removed later, or by the next GC",
    cause: new AggregateError(errors),
  });
}
