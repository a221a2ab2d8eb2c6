import { IN_USE_FINALIZER } from "../address-objects/resources.ts";
import type { KubeObject } from "../kube-api/client.ts";

/** What says whether an object's deletion is to be held up. */
export interface Guard {
  readonly isDeleting: boolean;
  readonly hasFinalizer: boolean;
}

export function guardOf(object: KubeObject): Guard {
  const isDeleting = object.metadata["deletionTimestamp"] !== undefined;
  return { isDeleting, hasFinalizer: finalizersOf(object).includes(IN_USE_FINALIZER) };
}

export function finalizersOf({ metadata }: KubeObject): readonly string[] {
  const { finalizers } = metadata;
  return Array.isArray(finalizers) ? finalizers : [];
}
