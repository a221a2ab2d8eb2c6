import type { Json, Stored } from "../stand-in/api-server/object-store.ts";

/** Writes that a manager of fields did last: of the object, or of its status. */
const MANAGER = "kube-vhostuser";

/**
 * Bytes of an object's value in etcd: a custom resource is stored as JSON, with an entry for each manager of its fields
 * (metadata.managedFields), here those of a create and of a write of the status.
 */
export function storedBytes(object: Stored): number {
  const { metadata, status, ...others } = object;
  const { name: _, uid: __, resourceVersion: ___, creationTimestamp: time, ...given } = metadata;
  const entry = (fields: Json, subresource?: string) => ({
    ...{
      manager: MANAGER,
      operation: "Update",
      apiVersion: object["apiVersion"],
      time,
      fieldsType: "FieldsV1",
    },
    ...(subresource === undefined ? {} : { subresource }),
    fieldsV1: fields,
  });
  const { apiVersion: ____, kind: _____, ...written } = others;
  const managedFields = [
    entry(fieldsOf({ metadata: given, ...written })),
    ...(status === undefined ? [] : [entry(fieldsOf({ status }), "status")]),
  ];
  return Buffer.byteLength(
    JSON.stringify({ ...object, metadata: { ...metadata, generation: 1, managedFields } }),
  );
}

/** The names of fields as structured-merge-diff writes them; a list is one field. */
function fieldsOf(value: object, isTop = true): Json {
  const fields = Object.entries(value)
    .filter(([, inner]) => inner !== undefined)
    .map(([name, inner]) => {
      const isMap = typeof inner === "object" && inner !== null && !Array.isArray(inner);
      return [`f:${name}`, isMap ? fieldsOf(inner, isTop && name === "metadata") : {}] as const;
    });
  return { ...(isTop ? {} : { ".": {} }), ...Object.fromEntries(fields) };
}
