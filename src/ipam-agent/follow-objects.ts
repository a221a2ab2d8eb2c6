import type { Resource } from "../kube-api/client.ts";
import { watchResource } from "../kube-api/watch.ts";
import type { AgentContext } from "./agent-context.ts";

/** Keeps pools, or spaces, as the API server has them until the signal fires; meanwhile those of the last run are used. */
export async function followObjects(
  kind: "pool" | "space",
  resource: Resource,
  { api, state, random, clock, logger }: AgentContext,
  signal: AbortSignal,
): Promise<void> {
  const onFailure = ({ message: reason }: { readonly message: string }) =>
    logger.warn({ reason }, `the watch of address ${kind}s was interrupted`);
  for await (const change of watchResource({ api, resource, random, clock, onFailure }, signal)) {
    if (change.kind !== "all") {
      const { object } = change;
      await state.putObject(kind, object.metadata.name, change.kind === "set" ? object : undefined);
      continue;
    }
    const gone = new Set(kind === "pool" ? state.pools.keys() : state.spaces.keys());
    for (const object of change.objects) {
      gone.delete(object.metadata.name);
      await state.putObject(kind, object.metadata.name, object);
    }
    for (const name of gone) await state.putObject(kind, name, undefined);
  }
}
