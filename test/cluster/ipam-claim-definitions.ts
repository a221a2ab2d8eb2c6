// The CustomResourceDefinitions that claims need, with what multi-network spec 1.3 (section 8) and the IPAMClaim API v1alpha1
// say of their fields.
const text = { type: "string" };
const GROUP = "k8s.cni.cncf.io";

const claim = {
  type: "object",
  properties: {
    spec: {
      type: "object",
      required: ["network", "interface"],
      properties: { network: text, interface: text },
    },
    status: {
      type: "object",
      required: ["ips"],
      properties: {
        ips: { type: "array", items: text },
        ownerPod: { type: "object", required: ["name"], properties: { name: text } },
        conditions: {
          type: "array",
          items: {
            type: "object",
            required: ["lastTransitionTime", "message", "reason", "status", "type"],
            properties: {
              type: { ...text, maxLength: 316 },
              status: { ...text, enum: ["True", "False", "Unknown"] },
              reason: { ...text, minLength: 1, pattern: "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$" },
              message: { ...text, maxLength: 32_768 },
              lastTransitionTime: { ...text, format: "date-time" },
              observedGeneration: { type: "integer", format: "int64", minimum: 0 },
            },
          },
        },
      },
    },
  },
};

const network = { type: "object", properties: { spec: { type: "object", properties: { config: text } } } };

export const IPAM_CLAIM_DEFINITION = definition("ipamclaims", "IPAMClaim", "v1alpha1", claim, true);
export const NETWORK_DEFINITION = definition(
  ...(["network-attachment-definitions", "NetworkAttachmentDefinition", "v1", network, false] as const),
);

/** KubeVirt's kinds as far as a client sees them: any fields. */
export const KUBEVIRT_DEFINITIONS = [
  ["virtualmachines", "VirtualMachine"],
  ["virtualmachineinstances", "VirtualMachineInstance"],
].map(([plural = "", kind = ""]) => ({
  ...{ apiVersion: "apiextensions.k8s.io/v1", kind: "CustomResourceDefinition" },
  metadata: { name: `${plural}.kubevirt.io` },
  spec: {
    ...{ group: "kubevirt.io", scope: "Namespaced", names: { plural, kind, singular: kind.toLowerCase() } },
    versions: [
      {
        ...{ name: "v1", served: true, storage: true },
        schema: { openAPIV3Schema: { type: "object", "x-kubernetes-preserve-unknown-fields": true } },
      },
    ],
  },
}));

function definition(plural: string, kind: string, version: string, schema: object, hasStatus: boolean) {
  return {
    ...{ apiVersion: "apiextensions.k8s.io/v1", kind: "CustomResourceDefinition" },
    metadata: { name: `${plural}.${GROUP}` },
    spec: {
      ...{ group: GROUP, scope: "Namespaced" },
      names: { plural, kind, singular: kind.toLowerCase(), listKind: `${kind}List` },
      versions: [
        {
          ...{ name: version, served: true, storage: true, schema: { openAPIV3Schema: schema } },
          ...(hasStatus ? { subresources: { status: {} } } : {}),
        },
      ],
    },
  };
}
