import * as z from "zod";
import { type RequestInPod, VMIS, VMS } from "../../../claims/resources.ts";
import type { KubeObject } from "../../../kube-api/client.ts";
import { Mirror } from "../../mirror.ts";
import { keyOf } from "../claims-view.ts";

/** A secondary network of a VM. */
export interface VmNetwork {
  readonly name: string;
  /** Key of its NetworkAttachmentDefinition, or its ResourceClaim. */
  readonly source: string | VmRequest;
  /** Name of the binding plugin of its interface; undefined for KubeVirt's own bindings. */
  readonly plugin: string | undefined;
}

/** A request of a ResourceClaim of the VM's pods. */
export interface VmRequest extends RequestInPod {
  /** Name of the template of which each pod gets a claim; undefined for a claim that the VM names. */
  readonly template: string | undefined;
}

/** What is kept of a VirtualMachine. */
export interface VmEntry {
  readonly uid: string;
  readonly isDeleting: boolean;
  /** Of its template. */
  readonly networks: readonly VmNetwork[];
}

/** What is kept of a VirtualMachineInstance. */
export interface VmiEntry extends VmEntry {
  readonly phase: string;
  readonly hasActivePods: boolean;
  /** Of the VirtualMachine that owns it. */
  readonly vmUid: string | undefined;
}

const specSchema = z.looseObject({
  networks: z
    .array(
      z.looseObject({
        name: z.string(),
        multus: z.looseObject({ networkName: z.string(), default: z.boolean().nullish() }).nullish(),
        resourceClaim: z.looseObject({ claimName: z.string(), requestName: z.string() }).nullish(),
      }),
    )
    .nullish(),
  resourceClaims: z
    .array(
      z.looseObject({
        name: z.string(),
        resourceClaimName: z.string().nullish(),
        resourceClaimTemplateName: z.string().nullish(),
      }),
    )
    .nullish(),
  domain: z
    .looseObject({
      devices: z
        .looseObject({
          interfaces: z
            .array(
              z.looseObject({ name: z.string(), binding: z.looseObject({ name: z.string() }).nullish() }),
            )
            .nullish(),
        })
        .nullish(),
    })
    .nullish(),
});
const metadataSchema = z.looseObject({
  uid: z.string(),
  namespace: z.string(),
  deletionTimestamp: z.string().nullish(),
  ownerReferences: z.array(z.looseObject({ kind: z.string(), uid: z.string() })).nullish(),
});
const vmSchema = z.looseObject({
  metadata: metadataSchema,
  spec: z.looseObject({ template: z.looseObject({ spec: specSchema.nullish() }).nullish() }),
});
const vmiSchema = z.looseObject({
  metadata: metadataSchema,
  spec: specSchema,
  status: z
    .looseObject({ phase: z.string().nullish(), activePods: z.record(z.string(), z.string()).nullish() })
    .nullish(),
});

/** @throws ZodError where it is no VirtualMachine of kubevirt.io/v1 */
export function parseVm(object: unknown): VmEntry {
  const { metadata, spec } = vmSchema.parse(object);
  const { uid, namespace, deletionTimestamp } = metadata;
  return {
    uid,
    isDeleting: deletionTimestamp != null,
    networks: networksOf(spec.template?.spec ?? {}, namespace),
  };
}

/** @throws ZodError where it is no VirtualMachineInstance of kubevirt.io/v1 */
export function parseVmi(object: unknown): VmiEntry {
  const { metadata, spec, status } = vmiSchema.parse(object);
  const { uid, namespace, deletionTimestamp, ownerReferences } = metadata;
  return {
    ...{ uid, isDeleting: deletionTimestamp != null, networks: networksOf(spec, namespace) },
    phase: status?.phase ?? "",
    hasActivePods: Object.keys(status?.activePods ?? {}).length > 0,
    vmUid: ownerReferences?.find(({ kind }) => kind === "VirtualMachine")?.uid,
  };
}

/** VMs and their instances as watches show them, by namespace and name; undefined where one cannot be read. */
export class VmsView {
  readonly vms: Mirror<VmEntry | undefined>;
  readonly vmis: Mirror<VmiEntry | undefined>;

  constructor(onChange: (key: string) => void) {
    this.vms = new Mirror({ resource: VMS, keyOf, entryOf: unlessWrong(parseVm), onChange });
    this.vmis = new Mirror({ resource: VMIS, keyOf, entryOf: unlessWrong(parseVmi), onChange });
  }
}

/** Multus' default network is left to the cluster's own IPAM. */
function networksOf(
  { networks, domain, resourceClaims }: z.infer<typeof specSchema>,
  namespace: string,
): readonly VmNetwork[] {
  const interfaces = new Map((domain?.devices?.interfaces ?? []).map((one) => [one.name, one]));
  return (networks ?? []).flatMap(({ name, multus, resourceClaim }): VmNetwork[] => {
    const plugin = interfaces.get(name)?.binding?.name;
    const claim = resourceClaims?.find((one) => one.name === resourceClaim?.claimName);
    if (resourceClaim != null && claim !== undefined) {
      const { resourceClaimName, resourceClaimTemplateName } = claim;
      const template = resourceClaimTemplateName ?? undefined;
      const source = { claim: resourceClaimName ?? claim.name, request: resourceClaim.requestName, template };
      return [{ name, source, plugin }];
    }
    if (multus == null || multus.default === true) return [];
    const { networkName } = multus;
    const source = networkName.includes("/") ? networkName : `${namespace}/${networkName}`;
    return [{ name, source, plugin }];
  });
}

function unlessWrong<Value>(parse: (object: KubeObject) => Value): (object: KubeObject) => Value | undefined {
  return (object) => {
    try {
      return parse(object);
    } catch {
      return undefined;
    }
  };
}
