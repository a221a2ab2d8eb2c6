import { timeoutFailure } from "../../failure/failure.ts";
import type { Answered } from "../../protocols/vpp-api/call.ts";
import type { VppConnection } from "../../protocols/vpp-api/connection.ts";
import {
  ANY_INDEX,
  dumpBridgeDomains,
  dumpInterfaces,
  dumpPolicers,
  dumpVhostUser,
} from "../../protocols/vpp-api/messages.ts";
import { dumpUnnumbered } from "../../protocols/vpp-api/routing-messages.ts";
import { orAborted } from "../../sync/deadlines.ts";
import { SharedRead } from "../../sync/shared-read.ts";
import { type Mark, parseMark } from "./mark.ts";
import { type PolicerPlace, parsePolicerName } from "./policers.ts";
import { VppRequests } from "./requests.ts";

/** Time for one reading; a VPP that swallows a request must not keep all later ones waiting. */
const READ_MS = 5_000;

export type Interface = Answered<typeof dumpInterfaces>;
export type VhostUser = Answered<typeof dumpVhostUser>;
export type BridgeDomain = Answered<typeof dumpBridgeDomains>;

/** A vhost-user interface with all that belongs to it. */
export interface VppPort {
  readonly index: number;
  /** From its mark; the tag or VPP's own name where it is not ours. */
  readonly name: string;
  /** Whose it is, where its tag is a mark of ours, of whatever node. */
  readonly mark: Mark | undefined;
  readonly interface: Interface;
  readonly vhost: VhostUser;
  readonly subInterfaces: readonly Interface[];
}

/** A policer with our mark. */
export interface VppPolicer extends PolicerPlace {
  readonly details: Answered<typeof dumpPolicers>;
}

/** Where an interface is a member. */
export interface Membership {
  readonly bridge: number;
  /** Split-horizon group; members of the same group but 0 do not talk to each other. */
  readonly group: number;
}

/** VPP's configuration, as far as ports need it. */
export interface View {
  readonly ports: readonly VppPort[];
  readonly interfaces: ReadonlyMap<number, Interface>;
  readonly bridges: readonly BridgeDomain[];
  readonly members: ReadonlyMap<number, Membership>;
  readonly policers: readonly VppPolicer[];
  /** Interfaces that use the addresses of another one, which is the value. */
  readonly unnumbered: ReadonlyMap<number, number>;
}

const sharedReads = new WeakMap<VppConnection, SharedRead<View>>();

/**
 * A reading that begins after the call, shared by calls that come at the same time: after a restart of VPP a hundred
 * ports ask at once, and each reading grows with the ports.
 * @throws Failure as {@link readView}, dataplane-timeout when the signal fires
 */
export function shareView({ connection, signal }: VppRequests): Promise<View> {
  const read = () => readView(new VppRequests(connection, AbortSignal.timeout(READ_MS)));
  const shared = sharedReads.get(connection) ?? new SharedRead({ read });
  sharedReads.set(connection, shared);
  return orAborted(shared.get(), signal, () =>
    timeoutFailure(signal, {
      what: "VPP did not list its configuration in time",
      fix: "check that VPP's main thread is not stuck",
    }),
  );
}

/** Reads all of it in one go; other clients of VPP may change something between its parts. */
export async function readView(vpp: VppRequests): Promise<View> {
  const all = { sw_if_index: ANY_INDEX };
  const [interfaces, vhosts, bridges, unnumbered, policers] = await Promise.all([
    vpp.dump(dumpInterfaces, { ...all, name_filter_valid: false, name_filter: "" }),
    vpp.dump(dumpVhostUser, all),
    vpp.dump(dumpBridgeDomains, { bd_id: ANY_INDEX, ...all }),
    vpp.dump(dumpUnnumbered, all),
    vpp.connection.knows(dumpPolicers)
      ? vpp.dump(dumpPolicers, { match_name_valid: false, match_name: "" })
      : [],
  ]);
  const byIndex = new Map(interfaces.map((row) => [row.sw_if_index, row]));
  const children = Map.groupBy(
    interfaces.filter((row) => row.sup_sw_if_index !== row.sw_if_index),
    (row) => row.sup_sw_if_index,
  );
  return {
    ports: vhosts.flatMap((vhost) => {
      const row = byIndex.get(vhost.sw_if_index);
      return row === undefined ? [] : portOf(vhost, row, children.get(row.sw_if_index) ?? []);
    }),
    interfaces: byIndex,
    bridges,
    members: new Map(
      bridges.flatMap(({ bd_id, sw_if_details }) =>
        sw_if_details.map(({ sw_if_index, shg }) => [sw_if_index, { bridge: bd_id, group: shg }] as const),
      ),
    ),
    unnumbered: new Map(unnumbered.map((row) => [row.sw_if_index, row.ip_sw_if_index])),
    policers: policers.flatMap((details) => {
      const place = parsePolicerName(details.name);
      return place === undefined ? [] : { ...place, details };
    }),
  };
}

/** A port, by its interface's rows. */
export function portOf(vhost: VhostUser, row: Interface, subInterfaces: readonly Interface[]): VppPort {
  const mark = parseMark(row.tag);
  const name = mark?.name ?? (row.tag === "" ? row.interface_name : row.tag);
  return { index: row.sw_if_index, name, mark, interface: row, vhost, subInterfaces };
}
