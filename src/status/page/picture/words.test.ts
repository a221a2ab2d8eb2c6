import { describe, expect, it } from "vitest";
import { exampleNode } from "../../../../test/stand-in/records/example-node.ts";
import { describeNode } from "../describe-node.ts";
import { age, nodeWords, podLabel, portWords, switchWords, trafficWords } from "./words.ts";

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
      "Pod media/virt-launcher-encoder-2mx8w, 1 interface, waiting; pod8d1f60b3c42 at link: down. Show its chain",
    );
  });

  it("describe a port as far as it is known", () => {
    const ports = view.pods.flatMap((pod) => pod.interfaces.map(portWords));
    expect(ports).toContain("vhu7c41e090002d, link up, 4 pairs, 12 dropped");
    expect(ports).toContain("vhu7c41e090004d is missing");
    const [one] = view.pods[0]?.interfaces ?? [];
    if (one === undefined) throw new Error("there is an interface");
    expect(portWords({ ...one, portKnown: false })).toBe(
      "vhu7c41e090006d, not known: the switch cannot be read",
    );
    const port = { link: "down", connected: false, failed: true } as const;
    expect(portWords({ ...one, port })).toBe("vhu7c41e090006d failed");
  });

  it("describe a switch in lines that fit", () => {
    expect(view.bridges.map(switchWords)).toEqual([["Open vSwitch 3.1.0", "DPDK 22.11.1"], ["VPP 25.06"]]);
    expect(switchWords({ kind: "vpp" })).toEqual(["vpp"]);
  });

  it.each([
    [undefined, 0, [""]],
    [undefined, 7, ["7 dropped"]],
    [0, 0, ["0 pps"]],
    [999.4, 0, ["999 pps"]],
    [999.6, 0, ["1.0 kpps"]],
    [99_949, 0, ["99.9 kpps"]],
    [999_499, 2, ["999 kpps, 2 dropped", "2 dropped"]],
    [1_234_567, 0, ["1.23 Mpps"]],
  ])("show a rate of %s with %i drops as %j", (rate, dropped, texts) => {
    expect(trafficWords(rate, dropped)).toEqual(texts);
  });

  it.each([
    [-5_000, "0 s"],
    [59_999, "59 s"],
    [3_599_999, "59 min"],
    [47 * 3_600_000, "47 h"],
    [50 * 3_600_000, "2 d"],
  ])("show %i ms as %s", (ms, text) => {
    expect(age(ms)).toBe(text);
  });
});
