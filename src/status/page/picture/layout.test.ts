import { describe, expect, it } from "vitest";
import { exampleNode, manyExamples } from "../../../../test/stand-in/records/example-node.ts";
import { nodeStatus } from "../../../../test/stand-in/records/traced-interface.ts";
import { describeNode } from "../describe-node.ts";
import { type Box, type Layout, layOut, MIN_WIDTH } from "./layout.ts";

const drawn = async (status = exampleNode(), width = 1_000) => {
  const { view } = await describeNode(status);
  return { view, layout: layOut(view, width) };
};

/** Pairs of boxes, each below the other, that meet. */
function overlaps(boxes: readonly Box[]): number {
  return boxes.filter((box, index) => {
    const next = boxes[index + 1];
    return next !== undefined && box.y + box.height > next.y;
  }).length;
}

function outside({ width, height, pods, bridges }: Layout): number {
  return [...pods, ...bridges].filter(
    (box) => box.x < 0 || box.y < 0 || box.x + box.width > width || box.y + box.height > height,
  ).length;
}

describe("the picture's layout", () => {
  it.each([0, 1, 200])("has a place for all of %i interfaces", async (count) => {
    const { layout } = await drawn(exampleNode(manyExamples(count)));
    expect(layout.pods).toHaveLength(count);
    expect([overlaps(layout.pods), overlaps(layout.bridges), outside(layout)]).toEqual([0, 0, 0]);
    expect(layout.bridges.map(({ of }) => of.name)).toEqual(["br-dpdk", "blue"]);
  });

  it("draws straight lines to the bridge beside a pod, and ends the others at their bridge's edge", async () => {
    const { layout } = await drawn();
    const boxes = new Map(layout.bridges.map((bridge) => [bridge.of.id, bridge]));
    const rows = layout.pods.flatMap((pod) => pod.rows);
    expect(rows.filter(({ y, bridgeY }) => y === bridgeY)).toHaveLength(8);
    for (const { of, bridgeY = -1 } of rows) {
      const { y, height } = boxes.get(of.bridge ?? "") ?? { y: 0, height: -1 };
      expect(bridgeY).toBeGreaterThan(y);
      expect(bridgeY).toBeLessThan(y + height);
    }
  });

  it("keeps a pod that is on no bridge, below the others", async () => {
    const status = exampleNode();
    const [one, ...others] = status.interfaces;
    if (one === undefined) throw new Error("the example has interfaces");
    const { bridge: _, port: __, portName: ___, ...rest } = one;
    const { layout } = await drawn({
      ...status,
      interfaces: [{ ...rest, state: "allocated" }, ...others.slice(1)],
    });
    expect(layout.pods.at(-1)?.rows).toMatchObject([{ of: { socket: "there" }, bridgeY: undefined }]);
    expect(outside(layout)).toBe(0);
  });

  it("is as wide as there is room, but not narrower than can be read", async () => {
    expect((await drawn(nodeStatus(), 1_234.5)).layout.width).toBe(1_234);
    expect((await drawn(nodeStatus(), 300)).layout.width).toBe(MIN_WIDTH);
  });

  it("counts the ports of a bridge that are there", async () => {
    const { layout } = await drawn();
    expect(layout.bridges.map(({ ports }) => ports)).toEqual([6, 2]);
  });
});
