import { describe, expect, it } from "vitest";
import { exampleNode } from "../../../../test/stand-in/records/example-node.ts";
import { describeNode } from "../describe-node.ts";
import {
  foundBy,
  nicWords,
  nodeWords,
  podLabel,
  portState,
  rateWords,
  switchWords,
  vlanWords,
} from "./words.ts";

const { view } = await describeNode(exampleNode());

describe("the words of the page", () => {
  it("say how a node is", () => {
    expect(nodeWords(view)).toBe("1 problem");
    expect(nodeWords({ ...view, health: "healthy" })).toBe("All is well");
    expect(nodeWords({ ...view, health: "degraded" })).toBe("1 interface waits for its guest");
    const interfaces = { ...view.interfaces, degraded: 2 };
    expect(nodeWords({ ...view, health: "degraded", interfaces })).toBe("2 interfaces wait for their guest");
  });

  it("describe a pod for screen readers", () => {
    const labels = view.pods.map(podLabel);
    expect(labels).toContain("Pod shop/virt-launcher-web-x7k2p, 2 interfaces, healthy. Show its chain");
    expect(labels).toContain(
      "Pod media/virt-launcher-encoder-2mx8w, 1 interface, waiting; fast (pod115dc3606fb) at link: down. Show its chain",
    );
  });

  it("describe a NIC by what a VM's owner knows: MAC, VLAN, addresses", () => {
    const web = view.pods.find(({ name }) => name.startsWith("virt-launcher-web"));
    expect(web?.interfaces.map(nicWords)).toEqual([
      "02:00:00:00:1f:00 · VLAN 100 · 10.20.0.17/24",
      "02:00:00:00:1f:01 · VLAN 200",
    ]);
    const vlan = { mode: "native-tagged", tag: 1, trunks: [2, 3] };
    expect(vlanWords({ vlan })).toBe("1 native-tagged, carries 2, 3");
    expect(vlanWords({ vlan: { mode: "trunk", trunks: [] } })).toBe("trunk, carries all");
    expect(vlanWords({ vlan: { mode: "dot1q-tunnel", tag: 7, trunks: [] } })).toBe("7 dot1q-tunnel");
  });

  it.each([
    ["web-X7K2P ", ["web-x7k2p"]],
    ["10.20.0.18", ["db-9q4tz"]],
    ["1f:01", ["web-x7k2p"]],
    ["vlan 200", ["web-x7k2p"]],
    ["uplink", ["gateway-0", "gateway-1"]],
    ["edge/", ["gateway-0", "gateway-1"]],
    ["vhu7c41e090005d", ["packet-generator"]],
    ["nothing", []],
  ])("find pods by %j", (text, names) => {
    const found = view.pods.filter((pod) => foundBy(text, pod)).map(({ name }) => name);
    expect(found.map((name) => name.replace("virt-launcher-", ""))).toEqual(names);
  });

  it("describe a port as far as it is known", () => {
    const ports = view.pods.flatMap((pod) => pod.interfaces.map(portState));
    expect(ports).toContainEqual({ kind: "there", full: "link up, 4 pairs of queues", short: "up · 4q" });
    expect(ports).toContainEqual({ kind: "gone", full: "missing", short: "missing" });
    expect(portState({ portUnknown: "no answer" })).toEqual({
      kind: "unknown",
      full: "not known: the switch cannot be read",
      short: "?",
    });
    const port = { name: "p", bridge: "b", socketPath: "/s", link: "down", connected: false } as const;
    expect(portState({ port })).toEqual({ kind: "there", full: "link down", short: "down" });
    expect(portState({ port: { ...port, error: "no memory" } }).kind).toBe("failed");
  });

  it("describe a switch in lines that fit", () => {
    expect(view.bridges.map(switchWords)).toEqual([["Open vSwitch 3.1.0", "DPDK 22.11.1"], ["VPP 25.06"]]);
    expect(switchWords({ kind: "vpp" })).toEqual(["vpp"]);
  });

  it.each([
    [0, "0 pps"],
    [999.4, "999 pps"],
    [999.6, "1.0 kpps"],
    [99_949, "99.9 kpps"],
    [999_499, "999 kpps"],
    [1_234_567, "1.23 Mpps"],
  ])("show a rate of %s as %s", (rate, text) => {
    expect(rateWords(rate)).toBe(text);
  });
});
