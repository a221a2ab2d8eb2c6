import type { Selection } from "../../../src/kube-api/client.ts";
import { at, isPartOf, type Json, type Stored, type StoreEvent } from "./object-store.ts";

/** Selectors of equality, which are all that we use. */
export function selects({ fieldSelector, labelSelector }: Selection): (object: Stored) => boolean {
  const pairs = (text = "") =>
    text.split(",").flatMap((term) => (term === "" ? [] : [term.split("=") as [string, string]]));
  const fields = pairs(fieldSelector);
  const labels = pairs(labelSelector);
  return (object) =>
    fields.every(([path, value]) => at(object, path) === value) &&
    labels.every(([label, value]) => (at(object, "metadata.labels") as Json | undefined)?.[label] === value);
}

/** What a watch with a selection sees of a change: an object that is selected no longer is deleted for it. */
export function eventSeenBy(
  { type, collection, object, before }: StoreEvent,
  of: string,
  passes: (object: Stored) => boolean,
): { readonly type: StoreEvent["type"]; readonly object: Stored } | undefined {
  if (!isPartOf(collection, of)) return undefined;
  const was = before !== undefined && passes(before);
  const is = type !== "DELETED" && passes(object);
  if (is) return { type: was ? "MODIFIED" : "ADDED", object };
  return was ? { type: "DELETED", object } : undefined;
}

/** What a client that wants only the metadata gets of an object. */
export function metadataOf({ metadata }: Stored): Stored {
  return { kind: "PartialObjectMetadata", apiVersion: "meta.k8s.io/v1", metadata };
}
