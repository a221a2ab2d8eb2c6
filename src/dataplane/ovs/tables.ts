import * as z from "zod";
import { Failure } from "../../failure/failure.ts";
import type { Condition, Operation, OperationResult } from "../../protocols/ovsdb/transaction.ts";
import {
  numberMapShape,
  optionalShape,
  setShape,
  stringMapShape,
  uuidReference,
  uuidShape,
} from "../../protocols/ovsdb/values.ts";

/** Interface.type of a port whose socket QEMU serves and the switch dials. */
export const VHOST_CLIENT = "dpdkvhostuserclient";
/** Interface.type of a port whose socket the switch serves, by the port's name in its `vhost-sock-dir`. */
export const VHOST_SERVER = "dpdkvhostuser";
/** Key in Interface.options that holds the socket's path. */
export const SERVER_PATH = "vhost-server-path";

/** A select of one table, and how to read what it gave. */
export interface Query<Row> {
  readonly operation: Operation;
  /** @throws Failure dataplane-protocol where a column is not what the schema says */
  read(result: OperationResult | undefined): Row[];
}

/** The columns of one table that are read, and how. */
function table<Shape extends z.ZodRawShape>(name: string, shape: Shape) {
  const schema = z.object(shape);
  const columns: readonly string[] = Object.keys(shape);
  /** @throws Failure dataplane-protocol where a column is not what the schema says */
  const parse = (row: unknown): z.output<typeof schema> => {
    const parsed = schema.safeParse(row);
    if (parsed.success) return parsed.data;
    const issue = parsed.error.issues[0];
    throw new Failure({
      code: "dataplane-protocol",
      what: `the switch's database holds an unreadable ${name} row: ${issue?.message}`,
      where: `${name}.${issue?.path.join(".")}`,
      cause: parsed.error,
    });
  };
  /** The rows that fulfil every condition. */
  const select = (...where: readonly Condition[]): Query<z.output<typeof schema>> => ({
    operation: { op: "select", table: name, where, columns },
    read: (result) => (result?.rows ?? []).map(parse),
  });
  return { name, columns, parse, select };
}

/** The one row that represents the switch. */
export const switchTable = table("Open_vSwitch", {
  next_cfg: z.number(),
  cur_cfg: z.number(),
  dpdk_initialized: z.boolean(),
  iface_types: setShape(z.string()),
  other_config: stringMapShape,
});

/** The same row's columns about the release. */
export const releaseTable = table("Open_vSwitch", {
  ovs_version: optionalShape(z.string()),
  dpdk_version: optionalShape(z.string()),
});

/** Without its ports: a set of hundreds, which work on one port does not need. */
export const bridgeTable = table("Bridge", {
  _uuid: uuidShape,
  name: z.string(),
  datapath_type: z.string(),
});

/** For what concerns all ports of a switch. */
export const bridgePortsTable = table("Bridge", { name: z.string(), ports: setShape(uuidShape) });

/** The bridge that holds a port. */
export const bridgeOfPort = ({ _uuid }: Pick<PortRow, "_uuid">): Query<BridgeRow> =>
  bridgeTable.select(["ports", "includes", uuidReference(_uuid)]);

export const portTable = table("Port", {
  _uuid: uuidShape,
  name: z.string(),
  interfaces: setShape(uuidShape),
  vlan_mode: optionalShape(z.string()),
  tag: optionalShape(z.number()),
  trunks: setShape(z.number()),
  cvlans: setShape(z.number()),
  protected: z.boolean(),
  qos: optionalShape(uuidShape),
  other_config: stringMapShape,
  external_ids: stringMapShape,
});

const interfaceColumns = {
  _uuid: uuidShape,
  name: z.string(),
  type: z.string(),
  options: stringMapShape,
  mtu: optionalShape(z.number()),
  mtu_request: optionalShape(z.number()),
  ofport: optionalShape(z.number()),
  error: optionalShape(z.string()),
  link_state: optionalShape(z.string()),
  status: stringMapShape,
  ingress_policing_rate: z.number(),
  ingress_policing_burst: z.number(),
  other_config: stringMapShape,
  external_ids: stringMapShape,
};

export const interfaceTable = table("Interface", interfaceColumns);

/** What a watch over links needs. */
export const linkTable = table("Interface", {
  name: z.string(),
  link_state: optionalShape(z.string()),
  ofport: optionalShape(z.number()),
  external_ids: stringMapShape,
});

/** With the counters, which are long and change all the time. */
export const countedInterfaceTable = table("Interface", {
  ...interfaceColumns,
  statistics: numberMapShape,
});

/** A root table: a row that no port refers to stays until it is deleted. */
export const qosTable = table("QoS", {
  _uuid: uuidShape,
  type: z.string(),
  other_config: stringMapShape,
});

export type SwitchRow = ReturnType<(typeof switchTable)["parse"]>;
export type BridgeRow = ReturnType<(typeof bridgeTable)["parse"]>;
export type PortRow = ReturnType<(typeof portTable)["parse"]>;
export type InterfaceRow = ReturnType<(typeof interfaceTable)["parse"]>;
export type CountedInterfaceRow = ReturnType<(typeof countedInterfaceTable)["parse"]>;
export type QosRow = ReturnType<(typeof qosTable)["parse"]>;
