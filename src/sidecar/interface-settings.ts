import * as z from "zod";
import { Failure } from "../failure/failure.ts";
import { readJson } from "./read-json.ts";

/** Annotation of a VMI with what the VMI's own fields cannot say of its vhost-user interfaces. */
export const SETTINGS_ANNOTATION = "vhostuser/interfaces";

/** Entries of a ring: what QEMU takes for vhost-user. */
const ringSize = z.literal([256, 512, 1024]);

const settingsSchema = z.strictObject({
  /** Queue pairs, fewer than KubeVirt's rule gives. */
  queues: z.int().positive().optional(),
  /** Entries of each receive ring. */
  rxQueueSize: ringSize.optional(),
  /** Entries of each transmit ring. */
  txQueueSize: ringSize.optional(),
  /** Offer the packed ring layout of virtio 1.1. */
  packed: z.boolean().optional(),
  /** Put the NIC behind a virtual IOMMU, so that a guest can give it to vfio-pci. */
  iommu: z.boolean().optional(),
});

/** What an interface's annotation may ask for. */
export type InterfaceSettings = z.infer<typeof settingsSchema>;

const annotationSchema = z.record(z.string(), settingsSchema);

/**
 * Reads the annotation: a JSON object with an object for each interface that it is about.
 * @param names of our interfaces in the VMI
 * @throws Failure `invalid-vmi`
 */
export function parseInterfaceSettings(
  annotation: string | undefined,
  names: readonly string[],
  vmi: string,
): ReadonlyMap<string, InterfaceSettings> {
  if (annotation === undefined) return new Map();
  const where = `VMI ${vmi}, annotation ${SETTINGS_ANNOTATION}`;
  const settings = readJson(annotation, {
    schema: annotationSchema,
    code: "invalid-vmi",
    where,
    fix: `write it as {"net1": {"queues": 2, "rxQueueSize": 1024}}; docs/sidecar.md lists the keys`,
  });
  const unknown = Object.keys(settings).find((name) => !names.includes(name));
  if (unknown === undefined) return new Map(Object.entries(settings));
  throw new Failure({
    code: "invalid-vmi",
    what: `it names ${JSON.stringify(unknown)}, which is no vhost-user interface of this VM`,
    where,
    fix: `name one of: ${names.join(", ")}`,
  });
}
