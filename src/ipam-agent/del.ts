import { parseSandboxInterface } from "../cni/request.ts";
import { describeThrown } from "../failure/failure.ts";
import type { AgentContext } from "./agent-context.ts";
import { keepSticky } from "./collect-shared.ts";
import { entryKey } from "./journal-entries.ts";
import { type AgentRequest, allocationFields, allocationLock } from "./request.ts";

/**
 * DEL: releases the addresses of a sandbox's interface. They are those of this container ID: a late DEL of an older sandbox
 * finds nothing of the newer one. A disk that refuses keeps them allocated until they are collected, because a runtime may
 * not repeat a DEL that failed.
 * @throws Failure `invalid-request`, `busy`
 */
export async function del(raw: AgentRequest, context: AgentContext, signal: AbortSignal): Promise<void> {
  const { state, locks, stale, logger } = context;
  const target = parseSandboxInterface(raw.env);
  const network = networkOf(raw.stdin);
  // A configuration that is gone or broken keeps no address: the sandbox and the interface identify it too.
  const keys =
    network === undefined
      ? [...state.allocations].flatMap(([key, { containerId, interfaceName }]) =>
          containerId === target.containerId && interfaceName === target.interfaceName ? [key] : [],
        )
      : [entryKey.allocation({ ...target, network })];
  for (const key of keys) {
    stale.recordEnd(key, raw.startedAtMs);
    await locks.run(allocationLock(key, "DEL", signal), async () => {
      const allocation = state.allocations.get(key);
      if (allocation === undefined || allocation.startedAtMs > raw.startedAtMs) return;
      const fields = allocationFields(allocation);
      await state.release(key).then(
        () => {
          logger.info(fields, "addresses released");
          return keepSticky(allocation, context, signal);
        },
        (error: unknown) =>
          logger.error({ ...fields, reason: describeThrown(error) }, "addresses cannot be released now"),
      );
    });
  }
}

/** The network's name; undefined where stdin holds none. */
function networkOf(stdin: Buffer): string | undefined {
  try {
    const name: unknown = JSON.parse(stdin.toString("utf8"))?.name;
    return typeof name === "string" && name !== "" ? name : undefined;
  } catch {
    return undefined;
  }
}
