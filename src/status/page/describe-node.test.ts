import { describe, expect, it } from "vitest";
import { exampleNode, manyExamples } from "../../../test/stand-in/records/example-node.ts";
import { nodeStatus } from "../../../test/stand-in/records/traced-interface.ts";
import { describeNode } from "./describe-node.ts";

const [one] = nodeStatus().interfaces;
const [pool] = nodeStatus().pools;
if (one === undefined || pool === undefined) throw new Error("the example has an interface and a pool");
const { port, ...noPort } = one;
if (port === undefined) throw new Error("the example has a port");

describe("a node as the page shows it", () => {
  it("is healthy where nothing is wrong and no interface waits", async () => {
    const { view } = await describeNode(nodeStatus());
    expect(view).toMatchObject({
      health: "healthy",
      problems: [],
      interfaces: { healthy: 1, degraded: 0, broken: 0 },
    });
    expect(view.pods[0]).toMatchObject({
      health: "healthy",
      interfaces: [
        { name: "pod37a8eec1ce1", bridge: "ovs-dpdk/br0", socket: "socket", port: { link: "up" } },
      ],
    });
  });

  it("is degraded while an interface waits for its guest", async () => {
    const waiting = { ...noPort, port: { ...port, link: "down" as const } };
    const { view } = await describeNode(nodeStatus({ interfaces: [waiting] }));
    expect(view).toMatchObject({ health: "degraded", problems: [], interfaces: { degraded: 1 } });
    expect(view.pods[0]?.interfaces[0]?.broken?.name).toBe("link");
  });

  it("is broken with an interface, and says as vhostuserctl does what is wrong", async () => {
    const { view } = await describeNode(nodeStatus({ interfaces: [one, { ...noPort, name: "net2" }] }));
    expect(view).toMatchObject({ health: "broken", interfaces: { healthy: 1, broken: 1 } });
    expect(view.problems[0]).toEqual({
      what: "shop/virt-launcher-web-x7k2p, net2: the switch has no port vhu0123456789ab of this pod",
      look: "vhostuserctl trace shop/virt-launcher-web-x7k2p",
      pod: view.pods[0]?.id,
    });
    expect(view.pods.map(({ health }) => health)).toEqual(["broken"]);
  });

  it("is broken with a switch, whose bridge says why", async () => {
    const away = { ...pool, switch: { kind: "ovs-dpdk" as const, ready: false, reason: "no answer" } };
    const { view } = await describeNode(nodeStatus({ pools: [away], interfaces: [] }));
    expect(view.health).toBe("broken");
    expect(view.bridges).toEqual([
      { id: "ovs-dpdk/br0", name: "br0", kind: "ovs-dpdk", ready: false, reason: "no answer", ports: 0 },
    ]);
  });

  it("has a bridge that a network names and no pool uses", async () => {
    const { view } = await describeNode(nodeStatus({ interfaces: [{ ...one, bridge: "br-other" }] }));
    expect(view.bridges[1]).toEqual({
      id: "ovs-dpdk/br-other",
      name: "br-other",
      kind: "ovs-dpdk",
      ports: 1,
    });
  });

  it("shows a new pod as waiting for a while, and then as broken", async () => {
    const {
      name: _,
      network: __,
      portName: ___,
      bridge: ____,
      ...device
    } = { ...noPort, state: "allocated" as const };
    const seenAfter = async (ms: number) => {
      const interfaces = [{ ...device, createdAt: 100_000 }];
      const { view } = await describeNode(nodeStatus({ interfaces, at: 100_000 + ms }));
      return [view.health, view.problems.map(({ what }) => what), view.pods[0]?.interfaces[0]?.broken?.name];
    };
    expect(await seenAfter(29_999)).toEqual(["degraded", [], "record"]);
    const what =
      "shop/virt-launcher-web-x7k2p, device sockets-00003: no interface is attached for sockets-00003";
    expect(await seenAfter(30_000)).toEqual(["broken", [what], "record"]);
  });

  it("counts allocations of which no interface is attached", async () => {
    const [allocation] = nodeStatus().allocations;
    if (allocation === undefined) throw new Error("the example has an allocation");
    const { view } = await describeNode(
      nodeStatus({ allocations: [allocation, { ...allocation, id: "other" }] }),
    );
    expect(view.unattached).toBe(1);
  });

  it("shows the worst of very many interfaces, and counts the others", async () => {
    const { view, pods } = await describeNode(exampleNode(manyExamples(2_700)));
    expect(view.pods).toHaveLength(1_000);
    expect([view.leftOut, view.interfaces.broken, view.interfaces.degraded]).toEqual([1_700, 300, 300]);
    expect(view.pods.filter(({ health }) => health === "broken")).toHaveLength(300);
    expect(view.problems).toHaveLength(101);
    expect(view.problems.at(-1)?.what).toBe("200 more");
    expect([...new Set(view.pods.map(({ health }) => health))]).toEqual(["broken", "degraded", "healthy"]);
    const names = view.pods.slice(0, 300).map(({ namespace, name }) => `${namespace}/${name}`);
    expect(names).toEqual(names.toSorted());
    expect([...pods.keys()]).toEqual(view.pods.map(({ id }) => id));
  });
});
