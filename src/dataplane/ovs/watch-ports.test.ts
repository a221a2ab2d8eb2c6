import { describe, expect, it } from "vitest";
import { disturbedPorts } from "./watch-ports.ts";

const marks = (owner = "kube-vhostuser", node = "n1", more: Record<string, string> = {}) => [
  "map",
  Object.entries({ owner, node, ...more }),
];
const change = (table: string, old?: object, row?: object) => ({
  ...{ table, uuid: "u" },
  ...(old === undefined ? {} : { old: old as Record<string, unknown> }),
  ...(row === undefined ? {} : { new: row as Record<string, unknown> }),
});
const port = { name: "vhu1", external_ids: marks() };

describe("ports that a change concerns", () => {
  it.each([
    ["one that is removed", [change("Port", port)], ["vhu1"]],
    ["one that is changed", [change("Interface", { options: ["map", []] }, port)], ["vhu1"]],
    [
      "one of which our mark is taken",
      [change("Port", { external_ids: marks() }, { ...port, external_ids: ["map", []] })],
      ["vhu1"],
    ],
    [
      "one whose limit is changed",
      [change("QoS", { type: "x" }, { external_ids: marks(undefined, undefined, { port: "vhu2" }) })],
      ["vhu2"],
    ],
    ["each once", [change("Port", port), change("Interface", port)], ["vhu1"]],
    ["none that is made: who makes it knows", [change("Port", undefined, port)], []],
    ["none of another node", [change("Port", { ...port, external_ids: marks(undefined, "n2") })], []],
    ["none of somebody else", [change("Port", { name: "eth0", external_ids: ["map", []] })], []],
    ["none with a bridge that goes, for they go with it", [change("Bridge", { name: "br0" })], []],
    ["all with a bridge that comes", [change("Bridge", undefined, { name: "br0" })], "all"],
  ])("are %s", (_name, changes, expected) => {
    expect(disturbedPorts(changes, "n1")).toEqual(expected);
  });
});
