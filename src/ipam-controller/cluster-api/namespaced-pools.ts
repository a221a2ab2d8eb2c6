// Pools of a namespace: an AddressPool of each, in a space of the namespace, so that its users take no addresses of others.
import { isDeepStrictEqual } from "node:util";
import type { Condition } from "../../address-objects/address-pool.ts";
import { newSpace } from "../../address-objects/address-space.ts";
import { headOf } from "../../address-objects/fields.ts";
import {
  ADDRESS_POOLS,
  ADDRESS_SPACES,
  IN_USE_FINALIZER,
  NAMESPACED_ANNOTATION,
  NAMESPACED_POOLS,
  statusOf,
} from "../../address-objects/resources.ts";
import type { KubeObject } from "../../kube-api/client.ts";
import { present } from "../../names/present.ts";
import { isOvertaken } from "../controller-context.ts";
import { readNow } from "../look.ts";
import { clusterPoolName } from "./objects.ts";
import { annotationOf, type ProviderContext } from "./provider-context.ts";

/** Of a space's name. */
const MAX_NAME = 63;

/** Space of all pools of a namespace; undefined where its name is too long for one. */
export function spaceOfNamespace(namespace: string): string | undefined {
  const name = `ns-${namespace}`;
  return name.length > MAX_NAME ? undefined : name;
}

type Context = Pick<ProviderContext, "api" | "clock" | "logger">;

/**
 * Makes the AddressPool of a NamespacedAddressPool what it should be, deletes it where that is gone, and copies its status.
 * Addresses that are allocated stay so when their pool is deleted, and its AddressPool stays until they are released.
 * @throws ApiFailure: to be repeated
 */
export async function ensureNamespacedPool(
  context: Context,
  { namespace, name }: { readonly namespace: string; readonly name: string },
  signal: AbortSignal,
): Promise<void> {
  const { api, logger } = context;
  const key = `${namespace}/${name}`;
  const own = { ...NAMESPACED_POOLS, namespace };
  const object = await readNow(api, own, name, signal);
  const existing = await readNow(api, ADDRESS_POOLS, clusterPoolName(namespace, name), signal);
  const isOurs = existing !== undefined && annotationOf(existing) === key;
  if (object === undefined || object.metadata["deletionTimestamp"] !== undefined) {
    // It may wait for its addresses.
    if (!isOurs || existing.metadata["deletionTimestamp"] !== undefined) return;
    const { uid = "", resourceVersion = "" } = existing.metadata;
    await api.delete(ADDRESS_POOLS, existing.metadata.name, { uid, resourceVersion }, signal);
    logger.info(
      { pool: existing.metadata.name },
      "the pool of a namespace is gone, its AddressPool is deleted",
    );
    return;
  }
  const space = spaceOfNamespace(namespace);
  if (space === undefined)
    return writeStatus(
      context,
      object,
      notReady("NamespaceTooLong", "Its namespace's name has more than 60 characters"),
      signal,
    );
  if (existing !== undefined && !isOurs)
    return writeStatus(
      context,
      object,
      notReady(
        "NameTaken",
        `AddressPool ${existing.metadata.name} exists, and is not of this pool: delete one of them`,
      ),
      signal,
    );
  await ensureSpace(context, space, signal);
  const pool = await ensurePool(context, { object, existing, space, key }, signal);
  await writeStatus(context, object, (pool["status"] ?? {}) as StatusOfPool, signal);
}

async function ensureSpace({ api }: Context, space: string, signal: AbortSignal): Promise<void> {
  if ((await readNow(api, ADDRESS_SPACES, space, signal)) !== undefined) return;
  try {
    await api.create(ADDRESS_SPACES, newSpace(space), signal);
  } catch (error) {
    if (!isOvertaken(error)) throw error;
  }
}

async function ensurePool(
  { api, logger }: Context,
  {
    object,
    existing,
    space,
    key,
  }: {
    readonly object: KubeObject;
    readonly existing: KubeObject | undefined;
    readonly space: string;
    readonly key: string;
  },
  signal: AbortSignal,
): Promise<KubeObject> {
  const { name } = object.metadata;
  const namespace = String(object.metadata["namespace"]);
  const { subnets, cooldownSeconds } = object["spec"] as Readonly<Record<string, unknown>>;
  const wanted = present({ space, mode: "PerAddress", subnets, cooldownSeconds });
  if (existing === undefined) {
    const head = headOf("AddressPool", clusterPoolName(namespace, name));
    const metadata = {
      ...head.metadata,
      annotations: { [NAMESPACED_ANNOTATION]: key },
      finalizers: [IN_USE_FINALIZER],
    };
    const made = await api.create(ADDRESS_POOLS, { ...head, metadata, spec: wanted }, signal);
    logger.info({ pool: made.metadata.name }, "an AddressPool was made for the pool of a namespace");
    return made;
  }
  const spec = { ...(existing["spec"] as object), ...wanted };
  if (isDeepStrictEqual(spec, existing["spec"])) return existing;
  return api.update(ADDRESS_POOLS, { ...existing, spec }, signal);
}

interface StatusOfPool {
  readonly total?: number;
  readonly used?: number;
  readonly free?: number;
  readonly conditions?: readonly Condition[];
}

function notReady(reason: string, message: string): StatusOfPool {
  return { conditions: [{ type: "Ready", status: "False", reason, message, lastTransitionTime: "" }] };
}

/** A condition that does not change keeps its time. */
async function writeStatus(
  { api, clock }: Context,
  object: KubeObject,
  { total = 0, used = 0, free = 0, conditions = [] }: StatusOfPool,
  signal: AbortSignal,
): Promise<void> {
  const { generation } = object.metadata as { readonly generation?: number };
  const namespace = String(object.metadata["namespace"]);
  const before = ((object["status"] ?? {}) as StatusOfPool).conditions ?? [];
  const now = new Date(clock.now()).toISOString().replace(/\.\d+Z$/, "Z");
  const timed = conditions.map(({ observedGeneration: _, ...one }) => {
    const known = before.find(({ type }) => type === one.type);
    const lastTransitionTime =
      known?.status === one.status ? known.lastTransitionTime : one.lastTransitionTime || now;
    return {
      ...one,
      lastTransitionTime,
      ...(generation === undefined ? {} : { observedGeneration: generation }),
    };
  });
  const status = { total, used, free, conditions: timed };
  if (isDeepStrictEqual(status, object["status"])) return;
  await api.update({ ...statusOf(NAMESPACED_POOLS), namespace }, { ...object, status }, signal);
}
