// What a claim asks for: one interface for each of its requests, each with one configuration.
import { type AllocatedClaim, type ClaimResult, type ConfigEntry, refuseIn } from "../dra/claim.ts";
import { parseCniConfig, type Refuse } from "../dra/cni-config.ts";
import { DRA_DRIVER, PLUGIN_TYPE } from "../dra/dra-context.ts";
import { present } from "../names/present.ts";
import { type AllowedPlugins, onHostInterface, requireAllowed, withoutHostInterface } from "./cni-network.ts";
import type { InterfacePlan } from "./interface-record.ts";

/** Name of the driver in ResourceSlices, claims, kubelet's registration and CDI kinds. */
export const CNI_DRIVER = "cni.dra.networking.x-k8s.io";

/** What plans are made with. */
export interface PlanOptions {
  /** Plugins and keys that claims may use. */
  readonly allowed: AllowedPlugins;
  /** Name of the node, and of its pool of slices. */
  readonly node: string;
  /** The host interface behind a device, null for the device without one; undefined where there is no such device. */
  readonly interfaceOf: (device: string) => string | null | undefined;
}

/**
 * Plans the interfaces of all results of this driver; changes nothing and runs nothing.
 * @throws Failure `invalid-claim`, which names the request and the rule
 */
export function planInterfaces(claim: AllocatedClaim, options: PlanOptions): readonly InterfacePlan[] {
  const results = claim.results.filter(({ isAdminAccess }) => !isAdminAccess);
  const entries = claim.config.filter(({ driver }) => driver === CNI_DRIVER);
  for (const entry of entries) {
    const [first, second] = results.filter((result) => isFor(entry, result));
    if (first === undefined || second === undefined) continue;
    throw refuseIn(claim, second)(
      `one configuration is for the requests ${first.request} and ${second.request}`,
      "write one for each request, and name it in its requests",
    );
  }
  const names = new Set<string>();
  return results.map((result) => {
    const refuse = refuseIn(claim, result);
    if (result.index > 0)
      throw refuse(
        "the request has more than one device",
        "let it have allocationMode ExactCount and count 1",
      );
    const [entry, ...others] = entries.filter((one) => isFor(one, result));
    if (entry === undefined)
      throw refuse(
        "the request has no configuration",
        "add one of kind CNIConfig to the claim or its DeviceClass",
      );
    if (others.length > 0) {
      const sources = [entry, ...others].map(({ source }) =>
        source === "FromClass" ? "its DeviceClass" : "the claim",
      );
      throw refuse(
        `the request has ${sources.length} configurations, from ${[...new Set(sources)].join(" and ")}`,
        "leave one: they are not merged",
      );
    }
    const plan = planOf(claim, result, entry, options, refuse);
    if (names.has(plan.ifName))
      throw refuse(`another request of the claim has ifName ${plan.ifName}`, "rename one");
    names.add(plan.ifName);
    return plan;
  });
}

function planOf(
  claim: AllocatedClaim,
  result: ClaimResult,
  { source, parameters }: ConfigEntry,
  { allowed, node, interfaceOf }: PlanOptions,
  refuse: Refuse,
): InterfacePlan {
  const { ifName, network: written } = parseCniConfig(parameters, refuse);
  if (written.plugins.some(({ type }) => type === PLUGIN_TYPE)) {
    throw refuse(
      `this driver does not run the plugin ${PLUGIN_TYPE}, whose ports need no network namespace`,
      `take a DeviceClass of the driver ${DRA_DRIVER}, such as vhostuser, and write that driver in opaque.driver`,
    );
  }
  const hostInterface = result.slicePool === node ? interfaceOf(result.device) : undefined;
  if (hostInterface === undefined) {
    throw refuse(
      `this node has no device ${JSON.stringify(result.device)} of pool ${JSON.stringify(result.slicePool)}`,
      "delete the pod, so that the scheduler allocates from the node's devices of now",
    );
  }
  const isOfClaim = source === "FromClaim";
  if (isOfClaim) requireAllowed(withoutHostInterface(written), allowed, refuse);
  const isFree = hostInterface === null && !isOfClaim;
  const network = isFree ? written : onHostInterface(written, hostInterface ?? undefined, refuse);
  const { namespace, name, uid, pod } = claim;
  const { request, slicePool: pool, device, shareID } = result;
  return present({ claim: { namespace, name, uid }, pod, request, pool, device, shareID, ifName, network });
}

/** Entries for a request are also for its subrequests. */
function isFor({ requests }: ConfigEntry, { request, subrequest }: ClaimResult): boolean {
  return (
    requests.length === 0 ||
    requests.some((one) => one === request || one === `${request}/${subrequest ?? ""}`)
  );
}
