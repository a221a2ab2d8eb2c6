import { describe, expect, it } from "vitest";
import { interfaceTable, portTable } from "./tables.ts";

const port = {
  _uuid: ["uuid", "2b30e0d1-d551-4ae5-aca7-6f32177eb294"],
  name: "vhu1",
  interfaces: ["uuid", "c4bfb4f2-80b0-46b7-8634-8aefdee209a0"],
  vlan_mode: ["set", []],
  tag: 7,
  trunks: ["set", [1, 2]],
  cvlans: 3,
  protected: false,
  qos: ["uuid", "7a9f0b56-2a3c-44a9-9f53-0f4bb0ac6ad5"],
  other_config: ["map", []],
  external_ids: ["map", [["owner", "kube-vhostuser"]]],
};

describe("rows of the switch's database", () => {
  it("are read into plain values", () => {
    expect(portTable.select().read({ rows: [port], count: 0 })).toEqual([
      {
        _uuid: "2b30e0d1-d551-4ae5-aca7-6f32177eb294",
        name: "vhu1",
        interfaces: ["c4bfb4f2-80b0-46b7-8634-8aefdee209a0"],
        vlan_mode: undefined,
        tag: 7,
        trunks: [1, 2],
        cvlans: [3],
        protected: false,
        qos: "7a9f0b56-2a3c-44a9-9f53-0f4bb0ac6ad5",
        other_config: new Map(),
        external_ids: new Map([["owner", "kube-vhostuser"]]),
      },
    ]);
  });

  it("are refused with table and column when they are not what the schema says", () => {
    const rows = [{ ...port, external_ids: "none" }];
    expect(() => portTable.select().read({ rows, count: 0 })).toThrow("Port.external_ids");
    expect(() => interfaceTable.select().read({ rows: [{}], count: 0 })).toThrow("Interface._uuid");
    expect(() => portTable.select().read({ rows: [null], count: 0 })).toThrow("Port row");
  });

  it("are asked for with exactly the columns that are read", () => {
    expect(portTable.select().operation).toMatchObject({ columns: Object.keys(port) });
  });
});
