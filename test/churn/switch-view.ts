import * as z from "zod";
import type { OvsDpdk } from "../lab/ovs-dpdk.ts";

/** A port of ours as the switch has it. */
export interface SwitchPort {
  readonly name: string;
  readonly node: string;
  readonly allocationId: string;
  readonly containerId: string;
  readonly interfaceName: string;
  readonly socket: string;
  readonly tag: number | undefined;
  readonly cir: string | undefined;
  /** Whether flows of ours hold its guest to its addresses. */
  readonly secured: boolean;
}

/** All that is ours in the switch, or looks like it. */
export interface SwitchView {
  readonly ports: readonly SwitchPort[];
  /** OpenFlow numbers that flows of ours are for and that no port has. */
  readonly strayFlows: readonly string[];
  /** Nodes by which QoS rows are marked, one entry a row; `""` for a row without a mark. */
  readonly qosRows: readonly string[];
}

const tableSchema = z.object({ headings: z.array(z.string()), data: z.array(z.array(z.unknown())) });

/** Reads the switch with its own tool, not with our client. */
export async function readSwitch(ovs: OvsDpdk, bridge: string): Promise<SwitchView> {
  const secured = await readSecuredPorts(ovs, bridge);
  const list = (table: string, columns: string) => ["--", `--columns=${columns}`, "list", table];
  const tables = await ovs.vsctl(
    ...["--no-wait", "--format=json"],
    ...list("Port", "_uuid,name,tag,qos,external_ids,interfaces"),
    ...list("Interface", "_uuid,type,options,ofport,external_ids"),
    ...list("QoS", "_uuid,other_config,external_ids"),
  );
  const [ports = [], interfaces = [], qos = []] = tables.trim().split("\n").map(rowsOf);
  const byId = (rows: readonly Row[]) => new Map(rows.map((row) => [uuid(row["_uuid"]), row]));
  const [interfaceById, qosById] = [byId(interfaces), byId(qos)];
  return {
    ports: ports.flatMap((port) => {
      const row = interfaceById.get(uuid(port["interfaces"]));
      if (!String(row?.["type"]).startsWith("dpdkvhostuser")) return [];
      const ids = map(port["external_ids"]);
      const limit = qosById.get(uuid(port["qos"]));
      return {
        name: String(port["name"]),
        node: ids.get("node") ?? "",
        allocationId: ids.get("allocation-id") ?? "",
        containerId: map(row?.["external_ids"]).get("container-id") ?? "",
        interfaceName: ids.get("interface") ?? "",
        socket: map(row?.["options"]).get("vhost-server-path") ?? "",
        tag: typeof port["tag"] === "number" ? port["tag"] : undefined,
        cir: limit && map(limit["other_config"]).get("cir"),
        secured: secured.has(String(row?.["ofport"])),
      };
    }),
    strayFlows: [...secured].filter((number) => !interfaces.some(({ ofport }) => String(ofport) === number)),
    qosRows: qos.map((row) => map(row["external_ids"]).get("node") ?? ""),
  };
}

/** OpenFlow numbers that flows with our cookie name. A switch that is just restarting has none. */
async function readSecuredPorts(ovs: OvsDpdk, bridge: string): Promise<ReadonlySet<string>> {
  const text = await ovs.ofctl(bridge, "dump-flows", "--no-names").catch(() => "");
  const ours = text.split("\n").filter((line) => line.includes("cookie=0x766875"));
  return new Set(ours.flatMap((line) => /in_port=(\d+)/.exec(line)?.[1] ?? []));
}

type Row = Readonly<Record<string, unknown>>;

function rowsOf(text: string): Row[] {
  const { headings, data } = tableSchema.parse(JSON.parse(text));
  return data.map((values) => Object.fromEntries(headings.map((heading, at) => [heading, values[at]])));
}

/** `["uuid", "…"]`, or nothing for an empty set. */
function uuid(value: unknown): string {
  return Array.isArray(value) && value[0] === "uuid" ? String(value[1]) : "";
}

function map(value: unknown): ReadonlyMap<string, string> {
  const pairs = Array.isArray(value) && value[0] === "map" ? (value[1] as [string, string][]) : [];
  return new Map(pairs);
}
