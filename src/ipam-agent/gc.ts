import type { AgentContext } from "./agent-context.ts";
import type { NetworkConfig } from "./network-config.ts";
import { type AgentRequest, allocationFields, allocationLock } from "./request.ts";

/**
 * GC: releases the addresses of every attachment of this network that the runtime does not name (CNI spec 1.1.0). The
 * list has an old, wrong name that libcni still sends; without either key nothing may be released.
 * @throws Failure `record-unwritable`, `busy`
 */
export async function gc(
  config: NetworkConfig,
  raw: AgentRequest,
  { state, locks, logger }: AgentContext,
  signal: AbortSignal,
): Promise<void> {
  const valid = config["cni.dev/valid-attachments"] ?? config["cni.dev/attachments"];
  if (!valid) return;
  const keep = new Set(valid.map(({ containerID, ifname }) => `${containerID}/${ifname}`));
  const errors: unknown[] = [];
  for (const [key, { network, containerId, interfaceName }] of [...state.allocations]) {
    if (network !== config.name || keep.has(`${containerId}/${interfaceName}`)) continue;
    const release = async () => {
      const allocation = state.allocations.get(key);
      // The runtime made its list before it called, and so before an ADD that started later.
      if (allocation === undefined || allocation.startedAtMs > raw.startedAtMs) return;
      await state.release(key);
      logger.info(allocationFields(allocation), "addresses released by GC");
    };
    // Continues when one fails, and reports it at the end.
    await locks.run(allocationLock(key, "GC", signal), release).catch((error: unknown) => errors.push(error));
  }
  if (errors.length > 0) throw errors[0];
}
