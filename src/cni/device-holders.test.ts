import { setImmediate as nextTurn } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { MemoryAllocations } from "../../test/stand-in/records/memory-allocations.ts";
import type { PodDevices } from "../kubelet/pod-resources.ts";
import { DeviceHolders } from "./device-holders.ts";

const DEVICE = "sockets-00001";

const pod = (name: string, ...ids: readonly string[]): PodDevices => ({
  podNamespace: "shop",
  podName: name,
  containers: [{ name: "c", devices: [{ resource: "vhostuser/sockets", ids }] }],
});

/** Holders with a kubelet that answers what a test sets, and counts the questions. */
function rig() {
  const allocations = new MemoryAllocations();
  const kubelet = { pods: [] as readonly PodDevices[], asked: 0, whileAsked: () => {} };
  const holders = new DeviceHolders(async () => {
    kubelet.asked += 1;
    const { pods } = kubelet;
    kubelet.whileAsked();
    return pods;
  }, allocations);
  return { allocations, kubelet, holders };
}

describe("which pod holds a device", () => {
  it("is asked of kubelet once as long as the device is not allocated again", async () => {
    const { allocations, kubelet, holders } = rig();
    allocations.put({ devices: [DEVICE] });
    kubelet.pods = [pod("web", DEVICE)];
    expect(await holders.holds("shop", "web", DEVICE)).toBe(true);
    expect(await holders.holds("shop", "web", DEVICE)).toBe(true);
    expect(kubelet.asked).toBe(1);
  });

  it("is asked soon after Allocate, once for several, so that ADD need not", async () => {
    const { allocations, kubelet, holders } = rig();
    const clock = { now: () => 0, monotonic: () => 0, sleep: () => Promise.resolve() };
    const ended = new AbortController();
    holders.follow(clock, ended.signal);
    kubelet.pods = [pod("web", DEVICE), pod("db", "sockets-00002")];
    const asked = new Promise<void>((done) => {
      kubelet.whileAsked = done;
    });
    allocations.put({ devices: [DEVICE] });
    allocations.put({ devices: ["sockets-00002"] });
    await asked;
    await nextTurn(); // the answer is on its way
    expect(await holders.holds("shop", "web", DEVICE)).toBe(true);
    expect(await holders.holds("shop", "db", "sockets-00002")).toBe(true);
    expect(kubelet.asked).toBe(1);
    ended.abort();
    allocations.put({ devices: ["sockets-00003"] });
    await nextTurn();
    expect(kubelet.asked).toBe(1);
  });

  it("is asked again for every other pod, which does not hold it", async () => {
    const { allocations, kubelet, holders } = rig();
    allocations.put({ devices: [DEVICE] });
    kubelet.pods = [pod("web", DEVICE), pod("thief")];
    await holders.devicesOf("shop", "web");
    expect(await holders.holds("shop", "thief", DEVICE)).toBe(false);
    expect(await holders.holds("other", "web", DEVICE)).toBe(false);
  });

  it("is forgotten when the device is allocated to the next pod", async () => {
    const { allocations, kubelet, holders } = rig();
    allocations.put({ devices: [DEVICE] });
    kubelet.pods = [pod("web", DEVICE)];
    await holders.devicesOf("shop", "web");
    allocations.put({ devices: [DEVICE] });
    kubelet.pods = [pod("db", DEVICE)];
    expect(await holders.holds("shop", "web", DEVICE)).toBe(false);
    expect(await holders.holds("shop", "db", DEVICE)).toBe(true);
  });

  it("is not learned from a list that was on its way while the device was allocated again", async () => {
    const { allocations, kubelet, holders } = rig();
    allocations.put({ devices: [DEVICE] });
    kubelet.pods = [pod("web", DEVICE)];
    kubelet.whileAsked = () => void allocations.put({ devices: [DEVICE] });
    await holders.devicesOf("shop", "web");
    kubelet.whileAsked = () => {};
    kubelet.pods = [pod("db", DEVICE)];
    expect(await holders.holds("shop", "web", DEVICE)).toBe(false);
  });

  it("is unknown for a device that was allocated again while kubelet was asked", async () => {
    const { allocations, kubelet, holders } = rig();
    allocations.put({ devices: [DEVICE] });
    kubelet.pods = [pod("web", DEVICE)];
    // The list is from before: what follows would be given the socket of the pod that has the device now.
    kubelet.whileAsked = () => void allocations.put({ devices: [DEVICE] });
    expect(await holders.holds("shop", "web", DEVICE)).toBe(false);
    expect(await holders.devicesOf("shop", "web")).toEqual([]);
  });

  it("leaves out devices of other plugins", async () => {
    const { kubelet, holders } = rig();
    kubelet.pods = [pod("web", DEVICE, "0000:03:00.1")];
    expect(await holders.devicesOf("shop", "web")).toEqual([DEVICE]);
  });
});
