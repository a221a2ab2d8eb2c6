import { describe, expect, it } from "vitest";
import { exampleNode } from "../../../../test/stand-in/records/example-node.ts";
import { describeNode } from "../describe-node.ts";
import { nodeWords, podLabel, portState, rateWords, switchWords } from "./words.ts";

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
    const ports = view.pods.flatMap((pod) => pod.interfaces.map(portState));
    expect(ports).toContainEqual({ full: "link up, 4 pairs of queues", short: "up · 4q" });
    expect(ports).toContainEqual({ full: "missing", short: "missing" });
    expect(portState({ portKnown: false })).toEqual({
      full: "not known: the switch cannot be read",
      short: "?",
    });
    const port = { link: "down", connected: false, failed: false } as const;
    expect(portState({ port, portKnown: true })).toEqual({ full: "link down", short: "down" });
    expect(portState({ port: { ...port, failed: true }, portKnown: true }).full).toBe("failed");
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
