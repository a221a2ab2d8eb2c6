import { Failure } from "../failure/failure.ts";
import type { AgentContext } from "./agent-context.ts";
import type { AllocationRequest } from "./request.ts";

/**
 * CHECK: the interface still has the addresses that ADD gave it, and they are in the result of the chain.
 * @throws Failure `check-failed`
 */
export function check(request: AllocationRequest, { state }: AgentContext): void {
  const { key, containerId, interfaceName, config } = request;
  const allocation = state.allocations.get(key);
  const where = `container ${containerId}, interface ${interfaceName}`;
  if (allocation === undefined) throw failed("the interface has no addresses", where);
  const shown = new Set((config.prevResult?.ips ?? []).map(({ address }) => address));
  const missing = allocation.addresses.filter(({ address }) => !shown.has(address));
  if (missing.length === 0) return;
  throw failed(`prevResult lacks ${missing.map(({ address }) => address).join(", ")}`, where);
}

function failed(what: string, where: string): Failure {
  return new Failure({
    code: "check-failed",
    what,
    where,
    fix: "delete the pod, so that it is created again",
  });
}
