/** A kind of objects, in one namespace or in the whole cluster. */
export interface Resource {
  /** Empty for the core group. */
  readonly group: string;
  readonly version: string;
  /** For example `resourceclaims`. */
  readonly plural: string;
  readonly namespace?: string;
  /** For example `status`, of update and patch. */
  readonly subresource?: string;
  /** Reads have only the metadata (`PartialObjectMetadata`), of pods a fifth of the bytes. */
  readonly isMetadataOnly?: boolean;
}

/** Path of a resource, or of an object of it. */
export function pathOf({ group, version, plural, namespace, subresource }: Resource, name?: string): string {
  const api = group === "" ? ["api"] : ["apis", group];
  const place = namespace === undefined ? [] : ["namespaces", namespace];
  const parts = [...api, version, ...place, plural, name, subresource].filter((part) => part !== undefined);
  return `/${parts.map(encodeURIComponent).join("/")}`;
}

/** What a request accepts, of an object or of a list. */
export function acceptOf({ isMetadataOnly = false }: Resource, list: "" | "List"): string {
  const kind = isMetadataOnly ? `;as=PartialObjectMetadata${list};g=meta.k8s.io;v=v1` : "";
  return `application/json${kind}`;
}
