// The network of a VM's ResourceClaim, as its template or claim and its DeviceClass say before it is allocated.
import * as z from "zod";
import { OUR_IPAM } from "../../../claims/network-attachment.ts";
import { inNamespace, RESOURCE_CLAIMS } from "../../../claims/resources.ts";
import { DRA_DRIVER } from "../../../dra/dra-context.ts";
import { Failure } from "../../../failure/failure.ts";
import type { KubeApi, Resource } from "../../../kube-api/client.ts";
import { readNow } from "../../look.ts";
import type { VmRequest } from "./vms-view.ts";

const GROUP = { group: "resource.k8s.io", version: "v1" } as const;
const TEMPLATES: Resource = { ...GROUP, plural: "resourceclaimtemplates" };
const CLASSES: Resource = { ...GROUP, plural: "deviceclasses" };

/** A network whose interfaces keep their addresses. */
export interface PortNetwork {
  readonly name: string;
  readonly pools: readonly string[];
}

const configSchema = z
  .array(
    z.looseObject({
      requests: z.array(z.string()).nullish(),
      opaque: z.looseObject({ driver: z.string(), parameters: z.unknown() }).nullish(),
    }),
  )
  .nullish();
const claimSchema = z.looseObject({
  devices: z.looseObject({
    requests: z.array(
      z.looseObject({
        name: z.string(),
        // KubeVirt finds the device of no other request.
        exactly: z.looseObject({ deviceClassName: z.string() }).nullish(),
      }),
    ),
    config: configSchema,
  }),
});
const templateSchema = z.looseObject({ spec: z.looseObject({ spec: claimSchema }) });
const directSchema = z.looseObject({ spec: claimSchema });
const classSchema = z.looseObject({ spec: z.looseObject({ config: configSchema }) });
/** Parameters that are wrong otherwise the daemon refuses. */
const portSchema = z.looseObject({
  name: z.string(),
  allowPersistentIPs: z.literal(true),
  ipam: z.looseObject({ type: z.literal(OUR_IPAM), pools: z.array(z.string()).min(1) }),
});

/**
 * The network of a VM's request, where its interface keeps its addresses; undefined where it has others or none.
 * @throws Failure `invalid-claim` for an object that is not there (yet), ApiFailure, ZodError
 */
export async function readPortNetwork(
  api: Pick<KubeApi, "get">,
  namespace: string,
  { claim, request: name, template }: VmRequest,
  signal: AbortSignal,
): Promise<PortNetwork | undefined> {
  const read = async (resource: Resource, object: string) => {
    const found = await readNow(api, resource, object, signal);
    if (found !== undefined) return found;
    throw new Failure({
      code: "invalid-claim",
      what: `there is no ${object} in ${resource.plural}`,
      where: `namespace ${namespace}`,
      fix: "create it; it is tried again",
    });
  };
  const { devices } =
    template === undefined
      ? directSchema.parse(await read(inNamespace(RESOURCE_CLAIMS, namespace), claim)).spec
      : templateSchema.parse(await read(inNamespace(TEMPLATES, namespace), template)).spec.spec;
  const request = devices.requests.find((one) => one.name === name)?.exactly;
  if (request == null) return undefined;
  const ofClass = classSchema.parse(await read(CLASSES, request.deviceClassName)).spec.config ?? [];
  const ofClaim = (devices.config ?? []).filter(
    ({ requests }) => requests == null || requests.length === 0 || requests.includes(name),
  );
  const parameters = [...ofClass, ...ofClaim].flatMap(({ opaque }) =>
    opaque?.driver === DRA_DRIVER ? [keysOf(opaque.parameters)] : [],
  );
  const { data } = portSchema.safeParse(Object.assign({}, ...parameters));
  return data && { name: data.name, pools: data.ipam.pools };
}

/** The keys of a VhostUserPort, or of the only network of a CNIConfig. */
function keysOf(parameters: unknown): object {
  const { kind, config } = (parameters ?? {}) as { readonly kind?: unknown; readonly config?: unknown };
  if (kind !== "CNIConfig") return Object(parameters);
  const network = Object(typeof config === "string" ? JSON.parse(config) : config);
  return { ...Object(network.plugins?.[0]), ...network };
}
