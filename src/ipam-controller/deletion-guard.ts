// Spaces and pools that are deleted stay as long as blocks, or addresses that are in use, name them. Blocks of kind Foreign keep
// only their space: those who go back to whereabouts delete the pool while its pods run.
import {
  ADDRESS_ALLOCATIONS,
  ADDRESS_BLOCKS,
  ADDRESS_POOLS,
  ADDRESS_SPACES,
  DEFAULT_SPACE,
  IN_USE_FINALIZER,
  selectorOf,
} from "../address-objects/resources.ts";
import type { KubeObject, Resource } from "../kube-api/client.ts";
import type { ClusterView } from "./cluster-view.ts";
import { type ControllerContext, isOvertaken } from "./controller-context.ts";
import { finalizersOf, guardOf } from "./in-use-finalizer.ts";
import { readNow } from "./look.ts";

/** What keeps a pool or a space, in numbers of objects. */
export interface Holders {
  readonly pools: number;
  readonly blocks: number;
  readonly allocations: number;
}

/** A finalizer on each space and pool, which is taken away when it is deleted and nothing names it any more. */
export class DeletionGuard {
  readonly #context: ControllerContext;

  constructor(context: ControllerContext) {
    this.#context = context;
  }

  async pass(signal: AbortSignal): Promise<void> {
    const { view } = this.#context;
    const pools = [...view.pools.entries].map(([name, entry]) => ({
      name,
      resource: ADDRESS_POOLS,
      ...entry.guard,
    }));
    const spaces = [...view.spaces.entries].flatMap(([name, entry]) =>
      entry === undefined ? [] : [{ name, resource: ADDRESS_SPACES, ...entry.guard }],
    );
    for (const { name, resource, isDeleting, hasFinalizer } of [...pools, ...spaces]) {
      // What is being deleted gets no finalizer any more.
      if (hasFinalizer !== isDeleting) continue;
      try {
        await this.#visit(resource, name, signal);
      } catch (error) {
        signal.throwIfAborted();
        if (isOvertaken(error)) continue;
        const what = "whether a pool or a space of addresses may be deleted is not known, it stays";
        this.#context.onFailure({ [resource === ADDRESS_POOLS ? "pool" : "space"]: name }, what, error);
      }
    }
  }

  async #visit(resource: Resource, name: string, signal: AbortSignal): Promise<void> {
    const { api, logger } = this.#context;
    const object = await readNow(api, resource, name, signal);
    if (object === undefined) return;
    const { isDeleting, hasFinalizer } = guardOf(object);
    const known = finalizersOf(object);
    if (!isDeleting && !hasFinalizer) {
      await api.update(resource, withFinalizers(object, [...known, IN_USE_FINALIZER]), signal);
      return;
    }
    if (!isDeleting || !hasFinalizer) return;
    const field = resource === ADDRESS_POOLS ? { pool: name } : { space: name };
    const holders = await this.#holdersOf(object, resource, signal);
    const text = describeHolders(holders);
    if (text !== undefined) {
      logger.info({ ...field, reason: `it has ${text}` }, "a pool or space of addresses waits to be deleted");
      return;
    }
    const others = known.filter((one) => one !== IN_USE_FINALIZER);
    await api.update(resource, withFinalizers(object, others), signal);
    logger.info(field, "a pool or space of addresses was deleted");
  }

  /** As the API server has them now. */
  async #holdersOf(object: KubeObject, resource: Resource, signal: AbortSignal): Promise<Holders> {
    const { api } = this.#context;
    const { name } = object.metadata;
    const isPool = resource === ADDRESS_POOLS;
    const { space = DEFAULT_SPACE } = (object["spec"] ?? {}) as { readonly space?: string };
    const labelSelector = selectorOf({ space: isPool ? space : name });
    const defaults = { space: DEFAULT_SPACE, pool: undefined };
    const count = async (of: Resource, selection: object, key: "pool" | "space") => {
      const { objects } = await api.list(of, selection, signal, ({ metadata, spec }) => {
        const { owner, ...fields } = (spec ?? {}) as Readonly<Record<string, unknown>>;
        const isForeign = (owner as { readonly kind?: unknown } | undefined)?.kind === "Foreign";
        const value = isPool && isForeign ? undefined : (fields[key] ?? defaults[key]);
        return { metadata: { name: metadata.name }, value };
      });
      return objects.filter(({ value }) => value === name).length;
    };
    const key = isPool ? "pool" : "space";
    return {
      pools: isPool ? 0 : await count(ADDRESS_POOLS, {}, "space"),
      blocks: await count(ADDRESS_BLOCKS, { labelSelector }, key),
      allocations: await count(ADDRESS_ALLOCATIONS, { labelSelector }, key),
    };
  }
}

/** What a pool still has, as the watches show it; undefined where that is nothing. */
export function holdersOfPool(pool: string, view: ClusterView): string | undefined {
  const ofPool = <Entry extends { readonly pool?: string | undefined }>(
    entries: Iterable<Entry | undefined>,
  ) => [...entries].filter((entry) => entry?.pool === pool).length;
  const own = [...view.blocks.entries.values()].filter((block) => block?.owner.kind !== "Foreign");
  return describeHolders({
    pools: 0,
    blocks: ofPool(own),
    allocations: ofPool(view.allocations.entries.values()),
  });
}

function withFinalizers(object: KubeObject, finalizers: readonly string[]): KubeObject {
  return { ...object, metadata: { ...object.metadata, finalizers } };
}

function describeHolders(holders: Holders): string | undefined {
  const texts = Object.entries(holders).flatMap(([what, count]) =>
    count === 0 ? [] : [`${what}: ${count}`],
  );
  return texts.length === 0 ? undefined : texts.join(", ");
}
