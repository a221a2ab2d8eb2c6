import * as z from "zod";

/** Far above what PCI can hold; one error is collected for each wrong element. */
const MOST_INTERFACES = 256;

/** An array whose length is checked before its elements are. */
function bounded<Element extends z.ZodType>(element: Element) {
  return z.array(z.unknown()).max(MOST_INTERFACES).pipe(z.array(element)).nullish();
}

const interfaceSchema = z.object({
  name: z.string().min(1).max(253),
  binding: z.object({ name: z.string() }).nullish(),
  model: z.string().nullish(),
  macAddress: z.string().nullish(),
  bootOrder: z.int().positive().nullish(),
  acpiIndex: z.int().nonnegative().nullish(),
  pciAddress: z.string().nullish(),
  state: z.string().nullish(),
});

const networkSchema = z.object({
  name: z.string(),
  pod: z.unknown().optional(),
  multus: z.object({ default: z.boolean().nullish() }).nullish(),
  resourceClaim: z.object({ claimName: z.string().nullish(), requestName: z.string().nullish() }).nullish(),
});

const claimSchema = z.object({
  name: z.string(),
  resourceClaimName: z.string().nullish(),
  resourceClaimTemplateName: z.string().nullish(),
});

const quantities = z.record(z.string(), z.union([z.string(), z.number()])).nullish();
const count = z.int().nonnegative().nullish();

/** The parts of a VirtualMachineInstance that the sidecar reads, as the Kubernetes API names them. */
export const vmiSchema = z.object({
  metadata: z.object({
    name: z.string(),
    namespace: z.string().nullish(),
    annotations: z.record(z.string(), z.string()).nullish(),
  }),
  spec: z.object({
    architecture: z.string().nullish(),
    domain: z.object({
      machine: z.object({ type: z.string().nullish() }).nullish(),
      cpu: z.object({ cores: count, sockets: count, threads: count }).nullish(),
      resources: z.object({ requests: quantities, limits: quantities }).nullish(),
      launchSecurity: z.unknown().optional(),
      devices: z.object({
        networkInterfaceMultiqueue: z.boolean().nullish(),
        useVirtioTransitional: z.boolean().nullish(),
        interfaces: bounded(interfaceSchema),
      }),
    }),
    networks: bounded(networkSchema),
    resourceClaims: bounded(claimSchema),
  }),
  status: z
    .object({
      interfaces: bounded(z.object({ name: z.string().nullish(), podInterfaceName: z.string().nullish() })),
      migrationState: z.object({ completed: z.boolean().nullish(), failed: z.boolean().nullish() }).nullish(),
    })
    .nullish(),
});

/** A VMI as it came. */
export type RawVmi = z.infer<typeof vmiSchema>;

/** One element of `spec.domain.devices.interfaces`. */
export type RawInterface = z.infer<typeof interfaceSchema>;
