import { describe, expect, it } from "vitest";
import { queuePairs } from "./vmi.ts";

type GuestSize = Parameters<typeof queuePairs>[0];

describe("queuePairs", () => {
  it.each<[string, GuestSize, number]>([
    ["cores alone", { cpu: { cores: 4 } }, 4],
    ["a full topology", { cpu: { cores: 4, sockets: 2, threads: 2 } }, 16],
    ["sockets with zero cores", { cpu: { cores: 0, sockets: 3, threads: 0 } }, 3],
    ["more than QEMU takes", { cpu: { cores: 200, sockets: 2 } }, 256],
    ["the limit before the request", { resources: { limits: { cpu: "3" }, requests: { cpu: "2" } } }, 3],
    ["the request", { cpu: { cores: 0 }, resources: { requests: { cpu: 2 } } }, 2],
    ["thousandths, rounded up", { resources: { limits: { cpu: "1500m" } } }, 2],
    ["a fraction, rounded up", { resources: { limits: { cpu: "0.5" } } }, 1],
    ["nothing at all", {}, 1],
  ])("counts %s", (_name, guest, pairs) => {
    expect(queuePairs(guest)).toBe(pairs);
  });
});
