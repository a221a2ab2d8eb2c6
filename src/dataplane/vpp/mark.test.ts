import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { PortOwner } from "../port.ts";
import { isOfNode, isSameAttachment, markOf, parseMark, printMark } from "./mark.ts";

const owner: PortOwner = {
  node: "node-a",
  podNamespace: "shop",
  podName: "virt-launcher-web",
  podUid: "0b5c8a52-5a3f-4f0e-9a52-1d0a3bb1c001",
  containerId: "c1",
  interfaceName: "net1",
  network: "fast",
  mac: "02:00:00:00:00:01",
  allocationId: "0123456789abcdef",
};
const LONGEST_NAME = "vhu0123456789ab";

describe("the mark on a port of VPP", () => {
  it("fits an interface's tag with the longest name, and comes back from it", () => {
    const mark = markOf(LONGEST_NAME, owner);
    expect(printMark(mark).length).toBeLessThanOrEqual(63);
    expect(parseMark(printMark(mark))).toEqual(mark);
  });

  it("distinguishes node and attachment from the other details", () => {
    const mark = markOf("p", owner);
    expect(isOfNode(mark, "node-a")).toBe(true);
    expect(isOfNode(mark, "node-b")).toBe(false);
    expect(isOfNode(undefined, "node-a")).toBe(false);
    expect(isSameAttachment(mark, { ...owner, containerId: "c2", podName: "other" })).toBe(true);
    for (const change of [{ node: "b" }, { allocationId: "f" }, { interfaceName: "net2" }]) {
      expect(isSameAttachment(mark, { ...owner, ...change })).toBe(false);
    }
  });

  it.each(Object.keys(owner).filter((key) => key !== "containerId"))("changes with the owner's %s", (key) => {
    expect(markOf("p", { ...owner, [key]: "other" })).not.toEqual(markOf("p", owner));
  });

  it("stays the same for a new sandbox of the pod", () => {
    expect(markOf("p", { ...owner, containerId: "c2" })).toEqual(markOf("p", owner));
  });

  it("is not the same for details that only run together the same way", () => {
    const [one, other] = [
      { ...owner, podNamespace: "a", podName: "bc" },
      { ...owner, podNamespace: "ab", podName: "c" },
    ];
    expect(markOf("p", one).details).not.toBe(markOf("p", other).details);
  });

  it("is absent where the tag is not ours", () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 63 }), (tag) => {
        expect(parseMark(tag)).toBeUndefined();
      }),
    );
    const ours = printMark(markOf("p", owner));
    for (const tag of [
      ours.slice(1),
      `${ours}:x`,
      `${ours}${"x".repeat(15)}`,
      ours.replace("kvu1", "kvu2"),
    ]) {
      expect(parseMark(tag)).toBeUndefined();
    }
  });
});
