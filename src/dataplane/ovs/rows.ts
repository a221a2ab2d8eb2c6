import { z } from "zod";
import { Failure } from "../../failure/failure.ts";
import type { Condition, Operation, OperationResult } from "../../protocols/ovsdb/transaction.ts";
import {
  numberMapShape,
  optionalShape,
  setShape,
  stringMapShape,
  uuidShape,
} from "../../protocols/ovsdb/values.ts";

/** Interface.type of a port whose socket QEMU serves and the switch dials. */
export const VHOST_CLIENT = "dpdkvhostuserclient";
/** Interface.type of a port whose socket the switch serves, by the port's name in its `vhost-sock-dir`. */
export const VHOST_SERVER = "dpdkvhostuser";
/** Key in Interface.options that holds the socket's path. */
export const SERVER_PATH = "vhost-server-path";

/** The columns of one table that we read, and how. */
class Table<Shape extends z.ZodRawShape> {
  readonly name: string;
  readonly #row: z.ZodObject<Shape>;

  constructor(name: string, columns: Shape) {
    this.name = name;
    this.#row = z.object(columns);
  }

  /** Reads the rows that fulfil every condition. */
  select(where: readonly Condition[]): Operation {
    return { op: "select", table: this.name, where, columns: Object.keys(this.#row.shape) };
  }

  /**
   * What {@link select} gave.
   * @throws Failure dataplane-protocol where a column is not what the schema says
   */
  read(result: OperationResult | undefined): z.output<z.ZodObject<Shape>>[] {
    return (result?.rows ?? []).map((row) => {
      const parsed = this.#row.safeParse(row);
      if (parsed.success) return parsed.data;
      const issue = parsed.error.issues[0];
      throw new Failure({
        code: "dataplane-protocol",
        what: `the switch's database holds a ${this.name} row that we cannot read: ${issue?.message}`,
        where: `${this.name}.${issue?.path.join(".")}`,
        cause: parsed.error,
      });
    });
  }
}

/** The one row that stands for the switch. */
export const switchTable = new Table("Open_vSwitch", {
  next_cfg: z.number(),
  cur_cfg: z.number(),
  dpdk_initialized: z.boolean(),
  iface_types: setShape(z.string()),
  other_config: stringMapShape,
});

/** The same row, for what the switch says of itself. */
export const releaseTable = new Table("Open_vSwitch", {
  ovs_version: optionalShape(z.string()),
  dpdk_version: optionalShape(z.string()),
});

export const bridgeTable = new Table("Bridge", {
  _uuid: uuidShape,
  name: z.string(),
  datapath_type: z.string(),
  ports: setShape(uuidShape),
});

export const portTable = new Table("Port", {
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

export const interfaceTable = new Table("Interface", interfaceColumns);

/** With the counters, which are long and change all the time: only for those who look at them. */
export const countedInterfaceTable = new Table("Interface", {
  ...interfaceColumns,
  statistics: numberMapShape,
});

/** A root table: its rows stay until somebody deletes them, also when no port refers to them. */
export const qosTable = new Table("QoS", {
  _uuid: uuidShape,
  type: z.string(),
  other_config: stringMapShape,
});

export type SwitchRow = ReturnType<typeof switchTable.read>[number];
export type BridgeRow = ReturnType<typeof bridgeTable.read>[number];
export type PortRow = ReturnType<typeof portTable.read>[number];
export type InterfaceRow = ReturnType<typeof interfaceTable.read>[number];
export type CountedInterfaceRow = ReturnType<typeof countedInterfaceTable.read>[number];
export type QosRow = ReturnType<typeof qosTable.read>[number];
