import * as z from "zod";

/** The VMI of a KubeVirt launcher pod. */
export interface LauncherPod {
  /** Whole: the pod's own name has it cut to some length. */
  readonly vmi: string;
  readonly vmiUid: string | undefined;
}

const texts = z.record(z.string(), z.string()).nullish();
const schema = z.looseObject({
  labels: texts,
  annotations: texts,
  ownerReferences: z.array(z.looseObject({ kind: z.string(), name: z.string(), uid: z.string() })).nullish(),
});

/**
 * The VMI of a launcher pod, by its metadata; undefined for another pod. KubeVirt writes the VMI's whole name in the
 * annotation `kubevirt.io/domain`, from which kubevirt/ipam-extensions reads it too, and in the owner reference.
 */
export function parseLauncherPod(metadata: unknown): LauncherPod | undefined {
  const { labels, annotations, ownerReferences } = schema.parse(metadata);
  if (labels?.["kubevirt.io"] !== "virt-launcher") return undefined;
  const owner = ownerReferences?.find(({ kind }) => kind === "VirtualMachineInstance");
  const vmi = annotations?.["kubevirt.io/domain"] || owner?.name;
  if (vmi === undefined) return undefined;
  return { vmi, vmiUid: owner?.uid ?? labels["kubevirt.io/created-by"] };
}
