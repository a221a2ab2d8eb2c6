import { createHash } from "node:crypto";
import { describeThrown, Failure } from "../../failure/failure.ts";
import { ANY_INDEX, addBridgeDomain, dumpBridgeDomains } from "../../protocols/vpp-api/messages.ts";
import { BRIDGE_DOMAIN_EXISTS } from "../../protocols/vpp-api/retval.ts";
import type { Readiness } from "../dataplane.ts";
import { lackingMessage, limitationsOf } from "./offers.ts";
import { requireDone, startWork, type VppContext, type VppRequests } from "./requests.ts";
import { type BridgeDomain, bridgeName, type View } from "./view.ts";

/** Numbers of bridge domains that we choose ourselves: the upper half, which people who count from 1 do not reach. */
const CHOSEN_FROM = 0x80_0000;
const CHOSEN_COUNT = 0x7f_ffff;
const ID_MAX = 0xff_ffff;

/** {@link Dataplane.probe}: VPP's main thread answers, knows every message that a port needs, and has the bridge domain. */
export async function probe(context: VppContext, bridge: string, signal: AbortSignal): Promise<Readiness> {
  try {
    const vpp = await startWork(context, signal);
    const lacking = lackingMessage(vpp.connection, "ports");
    if (lacking !== undefined) return { ready: false, reason: lacking.message };
    const bridges = await vpp.dump(dumpBridgeDomains, { bd_id: ANY_INDEX, sw_if_index: ANY_INDEX });
    const found = findBridge({ bridges }, bridge);
    if (found instanceof Failure) return { ready: false, reason: found.message };
    return { ready: true, limitations: await limitationsOf(vpp) };
  } catch (thrown) {
    return { ready: false, reason: describeThrown(thrown) };
  }
}

/** The bridge domain of this number or tag; a Failure, not thrown, that says why it cannot have ports. */
export function findBridge(view: Pick<View, "bridges">, name: string): BridgeDomain | Failure {
  const number = bridgeNumber(name);
  const numbered = view.bridges.filter(({ bd_id }) => bd_id === number);
  const found = numbered.length > 0 ? numbered : view.bridges.filter(({ bd_tag }) => bd_tag === name);
  const [bridge, other] = found;
  if (bridge === undefined) return missing(view, name);
  if (other !== undefined) {
    return new Failure({
      code: "dataplane-misconfigured",
      what: `bridge domains ${found.map(({ bd_id }) => bd_id).join(" and ")} both have the tag ${JSON.stringify(name)}`,
      fix: "name the bridge by its number",
    });
  }
  if (bridge.forward && bridge.flood && bridge.uu_flood) return bridge;
  return new Failure({
    code: "dataplane-misconfigured",
    what: `bridge domain ${JSON.stringify(name)} does not forward or does not flood`,
    where: `bridge domain ${bridge.bd_id}`,
    fix: ["forward", "flood", "uu-flood"]
      .map((what) => `vppctl set bridge-domain ${what} ${bridge.bd_id}`)
      .join("; "),
  });
}

/** Makes the bridge domain of this number or tag; one that another client makes at the same time is fine. */
export async function createBridge(
  vpp: VppRequests,
  view: Pick<View, "bridges">,
  name: string,
): Promise<void> {
  const number = bridgeNumber(name);
  const { retval } = await vpp.request(addBridgeDomain, {
    bd_id: number ?? chooseNumber(view, name),
    flood: true,
    uu_flood: true,
    forward: true,
    learn: true,
    arp_term: false,
    arp_ufwd: false,
    mac_age: 0,
    bd_tag: number === undefined ? name : "",
    is_add: true,
  });
  if (retval !== BRIDGE_DOMAIN_EXISTS) requireDone(retval, `bridge domain ${JSON.stringify(name)}`);
}

/** The number that a name is; undefined where it is a tag. Bridge domain 0 is VPP's own. */
function bridgeNumber(name: string): number | undefined {
  return /^[1-9]\d{0,7}$/.test(name) && Number(name) <= ID_MAX ? Number(name) : undefined;
}

/** The same for all who make this bridge at the same time, so that it is made once. */
function chooseNumber(view: Pick<View, "bridges">, name: string): number {
  const used = new Set(view.bridges.map(({ bd_id }) => bd_id));
  let step = createHash("sha256").update(name).digest().readUInt32BE() % CHOSEN_COUNT;
  while (used.has(CHOSEN_FROM + step)) step = (step + 1) % CHOSEN_COUNT;
  return CHOSEN_FROM + step;
}

function missing(view: Pick<View, "bridges">, name: string): Failure {
  const others = view.bridges.map((bridge) => JSON.stringify(bridgeName(bridge))).sort();
  return new Failure({
    code: "bridge-missing",
    what: `there is no bridge domain with the number or tag ${JSON.stringify(name)} in VPP`,
    where: others.length === 0 ? "VPP has no bridge domain" : `VPP has ${others.join(", ")}`,
    fix: "make it in the file that VPP's startup.conf executes, for VPP forgets it at a restart, or let the network make it",
  });
}
