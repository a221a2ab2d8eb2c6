import { Failure } from "../../failure/failure.ts";
import type { Call } from "../../protocols/vpp-api/call.ts";
import type { VppConnection } from "../../protocols/vpp-api/connection.ts";
import type { Layout } from "../../protocols/vpp-api/fields.ts";
import * as messages from "../../protocols/vpp-api/messages.ts";
import * as routing from "../../protocols/vpp-api/routing-messages.ts";
import type { VppRequests } from "./requests.ts";

/** What a network can ask of VPP, and every message for it; without those of `ports` a node can have no port at all. */
const MESSAGES = {
  ports: [
    messages.createVhostUser,
    messages.deleteVhostUser,
    messages.dumpVhostUser,
    messages.dumpInterfaces,
    messages.dumpBridgeDomains,
    messages.setInterfaceFlags,
    messages.tagInterface,
    messages.setMtu,
    messages.setBridge,
    routing.dumpUnnumbered,
  ],
  VLANs: [messages.createVlan, messages.deleteSubInterface, messages.rewriteVlanTag, messages.filterVlanTag],
  limits: [messages.addPolicer, messages.dumpPolicers, messages.policeInput, messages.policeOutput],
  "routed ports": Object.values(routing),
  announcements: [messages.executeLine, messages.wantInterfaceEvents],
} as const satisfies Readonly<Record<string, readonly Call<Layout, Layout>[]>>;

/** What not every VPP offers. */
export type Offer = keyof typeof MESSAGES;

/** First releases, where the messages alone do not tell; and what earlier ones do. */
const SINCE: { readonly [Of in Offer]?: readonly [release: string, defect: string] } = {
  // VPP's commits 7217dcdb54c and 5fe2bbeea79.
  announcements: ["26.02", "may crash when its packet generator sends a frame by an interface"],
  // 22.06 was seen to abort when ports are made and repaired in quick succession, 24.10 was not.
  "routed ports": ["24.10", "may abort over routed ports"],
};

/** The first message for it that this VPP lacks, or has in another form, as a Failure; undefined for none. */
export function lackingMessage(connection: VppConnection, offer: Offer): Failure | undefined {
  return connection.whyLacking(MESSAGES[offer]);
}

/** Why this VPP does not offer it: its messages, or its release. */
export async function whyNotOffered(vpp: VppRequests, offer: Offer): Promise<Failure | undefined> {
  const lacking = lackingMessage(vpp.connection, offer);
  const [since, defect] = SINCE[offer] ?? [];
  if (lacking !== undefined || since === undefined) return lacking;
  const version = await vpp.connection.version(vpp.signal);
  const [, release = "0"] = /^v?(\d\d\.\d\d)/.exec(version) ?? [];
  if (release >= since) return undefined;
  return new Failure({
    code: "dataplane-misconfigured",
    what: `VPP ${version} ${defect}`,
    fix: `use VPP ${since} or later`,
  });
}

/** A VPP offers the same for as long as it runs; each probe asks. */
const limitations = new WeakMap<VppConnection, readonly string[]>();

/** What this VPP, which can have ports, does not offer for them, one sentence each. */
export async function limitationsOf(vpp: VppRequests): Promise<readonly string[]> {
  const known = limitations.get(vpp.connection);
  if (known !== undefined) return known;
  const offers = Object.keys(MESSAGES) as Offer[];
  const reasons = await Promise.all(offers.map((offer) => whyNotOffered(vpp, offer)));
  const found = offers.flatMap((offer, at) => {
    const why = reasons[at];
    return why === undefined ? [] : [`no ${offer}: ${why.what}; ${why.fix}`];
  });
  limitations.set(vpp.connection, found);
  return found;
}
