import { describe, expect, it } from "vitest";
import { nodeStatus } from "../../test/stand-in/records/traced-interface.ts";
import { findProblems } from "../status/diagnosis/problems.ts";
import type { NodeStatus } from "../status/shape.ts";
import { renderStatus } from "./status.ts";

const screen = { columns: 80, colour: false, write: () => undefined };
const render = (status: NodeStatus, on = screen) => renderStatus(on, status, findProblems(status));
const [one] = nodeStatus().interfaces;
if (one === undefined) throw new Error("the example has an interface");

describe("the status of a node", () => {
  it("fits into 80 columns and needs no colour", () => {
    expect(render(nodeStatus())).toBe(`node worker-1, kube-vhostuser 0.1.0, up 3m1s, 1 interface

POOL     BRIDGE  SWITCH                   READY  KUBELET  DEVICES  HEALTHY  USED
sockets  br0     Open vSwitch 3.1.0, DP~  yes    yes          128      128     1

shop/virt-launcher-web-x7k2p
 in /var/run/vhostuser/0123456789abcdef
 INTERFACE       DEVICE         PORT             PEER  LINK  Q   MTU  DROPS  AGE
 pod37a8eec1ce1  sockets-00003  vhu0123456789ab  yes   up    4  1500      0   3m

last pass of the reconciler: 11s ago

no problems
`);
  });

  it("cuts long names of devices and ports, and nothing else", () => {
    const device = `${"p".repeat(32)}-00003`;
    const text = render(nodeStatus({ interfaces: [{ ...one, device }] }));
    expect(text.split("\n").filter((line) => line.length > 80)).toEqual([]);
    expect(text).toMatch(/~p+-00003/);
    expect(text).toContain("pod37a8eec1ce1");
  });

  it("is coloured on a terminal, with the same text", () => {
    const painted = render(nodeStatus(), { ...screen, colour: true });
    expect(painted).toContain("\u001b[32myes\u001b[39m");
    // biome-ignore lint/suspicious/noControlCharactersInRegex: escapes are what is removed
    expect(painted.replace(/\u001b\[\d+m/g, "")).toBe(render(nodeStatus()));
  });

  it("shows repairs, errors, and allocations without an attached interface", () => {
    const status = nodeStatus({
      interfaces: [],
      counts: {
        ...nodeStatus().counts,
        repairs: { "orphan-port": 2, stray: 0 },
        errors: [{ source: "cni", code: "bridge-missing", count: 3 }],
      },
    });
    const text = render(status);
    expect(text).toContain("1 allocation without an interface");
    expect(text).toContain("repairs: orphan-port 2\n");
    expect(text).toContain("errors: cni bridge-missing 3");
  });

  const { port: _, ...noPort } = one;
  const [pool] = nodeStatus().pools;
  if (pool === undefined) throw new Error("the example has a pool");
  const leftovers = { ports: [], directories: [], records: [] };
  it.each<readonly [string, Partial<NodeStatus>, RegExp]>([
    [
      "a switch that is away",
      { pools: [{ ...pool, switch: { kind: "ovs-dpdk", ready: false, reason: "no answer" } }] },
      /pool sockets: no answer\n {2}see: vhostuserctl doctor/,
    ],
    [
      "a resource that kubelet does not know",
      { resources: [{ name: "vhostuser/sockets", registered: false, registrations: 0 }] },
      /resource vhostuser\/sockets is not registered/,
    ],
    [
      "an interface whose port is gone",
      { interfaces: [noPort] },
      /has no port\n {2}vhu0123456789ab of this pod\n {2}see: vhostuserctl trace shop\/virt-launcher-web-x7k2p/,
    ],
    [
      "a port without a record",
      { leftovers: { ...leftovers, ports: [{ name: "vhu1", bridge: "br0", pod: "shop/old" }] } },
      /port vhu1 on bridge br0 \(shop\/old\) has no record/,
    ],
    [
      "a directory without a record",
      { leftovers: { ...leftovers, directories: ["zzzzzzzzzzzzzzzz"] } },
      /directory zzzzzzzzzzzzzzzz has no record/,
    ],
    [
      "a record that cannot be read",
      { leftovers: { ...leftovers, records: [{ file: "/r/x.json", reason: "torn" }] } },
      /record \/r\/x.json cannot be read: torn/,
    ],
  ])("names %s as a problem", (_name, changes, text) => {
    const status = nodeStatus(changes);
    expect(findProblems(status)).toHaveLength(1);
    expect(render(status)).toMatch(text);
  });

  it("does not report an interface that waits for its guest", () => {
    const waiting = { ...one, port: { ...noPort, ...one.port, connected: false, link: "down" } };
    expect(findProblems(nodeStatus({ interfaces: [waiting as typeof one] }))).toEqual([]);
  });
});
