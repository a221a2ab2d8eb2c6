// The definitions of Cluster API that an IPAM provider meets, written from its documented fields, for an API server without
// Cluster API: as strict about types and required fields as the originals, without their descriptions.
const text = { type: "string" };
const metav1Condition = {
  type: "object",
  required: ["type", "status", "reason", "message", "lastTransitionTime"],
  properties: {
    type: { type: "string", maxLength: 316 },
    status: { type: "string", enum: ["True", "False", "Unknown"] },
    reason: { type: "string", minLength: 1, pattern: "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$" },
    message: text,
    lastTransitionTime: { type: "string", format: "date-time" },
    observedGeneration: { type: "integer", format: "int64", minimum: 0 },
  },
};
const ownCondition = {
  type: "object",
  required: ["type", "status", "lastTransitionTime"],
  properties: {
    ...{ type: text, status: text, severity: { type: "string", maxLength: 32 } },
    reason: { type: "string", minLength: 1, maxLength: 256 },
    message: { type: "string", minLength: 1, maxLength: 10_240 },
    lastTransitionTime: { type: "string", format: "date-time" },
  },
};
const conditions = {
  v1beta2: {
    ...{ type: "array", maxItems: 32, items: metav1Condition },
    ...{ "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"] },
  },
  v1beta1: { type: "array", items: ownCondition },
};
const poolRef = {
  v1beta2: {
    type: "object",
    required: ["name", "kind", "apiGroup"],
    properties: { name: text, kind: text, apiGroup: text },
  },
  v1beta1: {
    type: "object",
    required: ["name", "kind"],
    properties: { name: text, kind: text, apiGroup: text },
  },
};
const named = { type: "object", required: ["name"], properties: { name: { type: "string", minLength: 1 } } };
type Version = "v1beta1" | "v1beta2";

const claim = (version: Version) => ({
  type: "object",
  required: ["spec"],
  properties: {
    spec: {
      type: "object",
      required: ["poolRef"],
      properties: {
        clusterName: { type: "string", minLength: 1, maxLength: 63 },
        poolRef: poolRef[version],
      },
    },
    status: {
      type: "object",
      properties: { addressRef: named, conditions: conditions[version] },
    },
  },
});

const address = (version: Version) => ({
  type: "object",
  required: ["spec"],
  properties: {
    spec: {
      type: "object",
      required: ["claimRef", "poolRef", "address", "prefix"],
      properties: {
        claimRef: named,
        poolRef: poolRef[version],
        address: { type: "string", minLength: 1, maxLength: 39 },
        prefix: { type: "integer", minimum: 0, maximum: 128 },
        gateway: { type: "string", minLength: 1, maxLength: 39 },
      },
    },
  },
});

const cluster = () => ({
  type: "object",
  properties: { spec: { type: "object", properties: { paused: { type: "boolean" } } } },
});

/** CustomResourceDefinitions that serve one version. */
export function clusterApiDefinitions(version: Version): readonly object[] {
  const definition = (group: string, kind: string, plural: string, schema: object, subresources: object) => ({
    ...{ apiVersion: "apiextensions.k8s.io/v1", kind: "CustomResourceDefinition" },
    metadata: {
      name: `${plural}.${group}`,
      annotations: { "api-approved.kubernetes.io": "unapproved, of a test" },
    },
    spec: {
      ...{ group, scope: "Namespaced", names: { kind, plural, singular: kind.toLowerCase() } },
      versions: [
        { name: version, served: true, storage: true, subresources, schema: { openAPIV3Schema: schema } },
      ],
    },
  });
  const ipam = "ipam.cluster.x-k8s.io";
  return [
    definition(ipam, "IPAddressClaim", "ipaddressclaims", claim(version), { status: {} }),
    definition(ipam, "IPAddress", "ipaddresses", address(version), {}),
    definition("cluster.x-k8s.io", "Cluster", "clusters", cluster(), {}),
  ];
}
