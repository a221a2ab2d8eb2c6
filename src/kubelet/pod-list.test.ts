import { describe, expect, it } from "vitest";
import { PodList } from "./pod-list.ts";
import type { PodDevices } from "./pod-resources.ts";

/** Reads that end when the test says so. */
function heldReads() {
  const reads: PromiseWithResolvers<readonly PodDevices[]>[] = [];
  const read = () => {
    const one = Promise.withResolvers<readonly PodDevices[]>();
    reads.push(one);
    return one.promise;
  };
  return { reads, list: new PodList({ read, deadlineMs: 1000 }) };
}
const pod = (podName: string): PodDevices => ({ podNamespace: "ns", podName, containers: [] });
const settle = () => new Promise((resolve) => setImmediate(resolve));

describe("kubelet's list for many askers", () => {
  it("is read once more for all who came while it was being read", async () => {
    const { reads, list } = heldReads();
    const first = list.read();
    const others = [list.read(), list.read(), list.read()];
    expect(reads).toHaveLength(1);
    reads[0]?.resolve([pod("a")]);
    expect(await first).toEqual([pod("a")]);
    await settle();
    expect(reads).toHaveLength(2);
    reads[1]?.resolve([pod("b")]);
    expect(await Promise.all(others)).toEqual([[pod("b")], [pod("b")], [pod("b")]]);
  });

  it("fails for those whose read failed, and is read anew for the next", async () => {
    const { reads, list } = heldReads();
    const first = list.read();
    const second = list.read();
    reads[0]?.reject(new Error("kubelet is away"));
    await expect(first).rejects.toThrow("kubelet is away");
    await settle();
    reads[1]?.resolve([]);
    expect(await second).toEqual([]);
    const third = list.read();
    expect(reads).toHaveLength(3);
    reads[2]?.resolve([]);
    await third;
  });
});
