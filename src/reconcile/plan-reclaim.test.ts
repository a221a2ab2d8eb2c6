import { describe, expect, it } from "vitest";
import { exampleClaim } from "../../test/stand-in/records/example-claim.ts";
import { sandboxOfClaim } from "../ipam/release-addresses.ts";
import type { AllocationRecord } from "../records/allocation-record.ts";
import type { PortRecord } from "../records/port-record.ts";
import { planReclaim, type ReclaimInput } from "./plan-reclaim.ts";

const GRACE = 100;
const NOW = 1000;

function allocation(id: string, sequence: number, createdAt: number, ...devices: string[]): AllocationRecord {
  return {
    id,
    pool: "sockets",
    holder: { kind: "device-plugin", resource: "r/s", devices },
    ownership: { owner: 107, group: 107, mode: 0o2770 },
    createdAt,
    sequence,
  };
}

function claimed(id: string, pod: string, released?: true): AllocationRecord {
  const holder = exampleClaim({
    pod: { namespace: "ns", name: pod, uid: "p" },
    ...(released && { released }),
  });
  return { ...allocation(id, 1, 0), holder };
}

function port(allocationId: string, pod: string, containerId: string, createdAt = 0): PortRecord {
  return {
    containerId,
    startedAtMs: createdAt,
    bootId: "boot",
    releases: [],
    interfaceName: "net1",
    state: "attached",
    allocationId,
    device: "d1",
    pool: "sockets",
    portName: `vhu-${containerId}`,
    bridge: "br0",
    switchSocketPath: `/run/${allocationId}/net1/vhost.sock`,
    podSocketPath: "/var/run/vhostuser/sockets/net1/vhost.sock",
    mac: "02:00:00:00:00:01",
    settings: {},
    network: "net",
    netns: "",
    podNamespace: "ns",
    podName: pod,
    podUid: "",
    createdAt,
  };
}

interface World {
  readonly allocations: readonly AllocationRecord[];
  readonly ports?: readonly PortRecord[];
  readonly held?: readonly string[];
  readonly pods?: readonly string[];
  readonly claims?: readonly string[];
  readonly connected?: readonly string[];
  readonly firstLook?: boolean;
}

function plan(world: World) {
  const input: Omit<ReclaimInput, "before"> = {
    allocations: world.allocations,
    ports: world.ports ?? [],
    kubelet: {
      pods: new Set((world.pods ?? []).map((name) => `ns/${name}`)),
      held: new Set((world.held ?? []).map((device) => `r/s ${device}`)),
      claims: new Set((world.claims ?? []).map((name) => `ns/${name}`)),
    },
    connected: new Set(world.connected ?? []),
    nowMs: NOW,
    graceMs: GRACE,
  };
  const first = planReclaim({ ...input, before: new Set() });
  const result = world.firstLook === true ? first : planReclaim({ ...input, before: first.abandoned });
  return {
    allocations: result.allocations.map(({ id }) => id),
    ports: result.ports.map(({ portName }) => portName),
  };
}
const reclaimed = (world: World) => plan(world).allocations;

describe("reclaiming allocations", () => {
  it("keeps one while a pod holds any of its devices", () => {
    expect(reclaimed({ allocations: [allocation("a", 1, 0, "d1", "d2")], held: ["d2"] })).toEqual([]);
  });

  it("removes one that no pod holds at the second check, not at the first", () => {
    const allocations = [allocation("a", 1, 0, "d1")];
    expect(reclaimed({ allocations, firstLook: true })).toEqual([]);
    expect(reclaimed({ allocations })).toEqual(["a"]);
  });

  it("keeps a recent one, because its pod may not be listed yet", () => {
    expect(reclaimed({ allocations: [allocation("a", 1, NOW - 50, "d1")] })).toEqual([]);
  });

  it("keeps one that a guest is connected to, whatever kubelet says", () => {
    expect(reclaimed({ allocations: [allocation("a", 1, 0, "d1")], connected: ["a"] })).toEqual([]);
  });

  it("keeps one whose pool now has another resource in the configuration", () => {
    const holder = { kind: "device-plugin" as const, resource: "old/name", devices: ["d1"] };
    const renamed = { ...allocation("a", 1, 0, "d1"), holder };
    const input = {
      allocations: [renamed],
      ports: [],
      kubelet: { pods: new Set(["ns/p"]), held: new Set(["old/name d1"]), claims: new Set<string>() },
      connected: new Set<string>(),
      before: new Set(["a"]),
      nowMs: NOW,
      graceMs: GRACE,
    };
    expect(planReclaim(input).allocations).toEqual([]);
  });

  it("removes the older one when a device was given to another pod", () => {
    const allocations = [allocation("a", 1, 0, "d1"), allocation("b", 2, 500, "d1")];
    expect(reclaimed({ allocations, held: ["d1"] })).toEqual(["a"]);
  });

  it("keeps an init container's allocation for as long as its pod's main container holds the device", () => {
    const allocations = [allocation("init", 1, 0, "d1"), allocation("main", 2, 1, "d1")];
    expect(reclaimed({ allocations, held: ["d1"] })).toEqual([]);
    expect(reclaimed({ allocations })).toEqual(["init", "main"]);
  });

  it("keeps one that only an init container holds, which PodResources does not list, by its pod's interface", () => {
    const allocations = [allocation("a", 1, 0, "d1")];
    const ports = [port("a", "p", "c1")];
    expect(reclaimed({ allocations, ports, pods: ["p"] })).toEqual([]);
    expect(reclaimed({ allocations, ports, pods: [] })).toEqual(["a"]);
  });

  it("does not take the port of a claim for that of a newer sandbox of its pod", () => {
    const allocations = [allocation("init", 1, 0, "d1")];
    const ports = [port("init", "p", "s1"), port("claimed", "p", sandboxOfClaim("u"), 5)];
    expect(reclaimed({ allocations, ports, pods: ["p"] })).toEqual([]);
  });

  it("is not misled by a pod that was recreated under the same name", () => {
    const allocations = [allocation("old", 1, 0, "d1"), allocation("new", 2, 500, "d2")];
    const ports = [port("old", "p", "c1", 10), port("new", "p", "c2", 510)];
    expect(reclaimed({ allocations, ports, pods: ["p"], held: ["d2"] })).toEqual(["old"]);
  });

  it("removes one whose pod is known to be gone, however soon its device was given to the next pod", () => {
    const of = (name: string, uid: string) => ({ pod: { namespace: "ns", name, uid } });
    const allocations = [{ ...allocation("a", 1, 0, "d1"), ...of("gone", "1") }, allocation("b", 2, 1, "d1")];
    expect(reclaimed({ allocations, held: ["d1"], pods: ["next"] })).toEqual(["a"]);
    expect(reclaimed({ allocations, held: ["d1"], pods: ["next", "gone"] })).toEqual([]);
    const recreated = [
      { ...allocation("a", 1, 0, "d1"), ...of("db-0", "1") },
      { ...allocation("b", 2, 1, "d1"), ...of("db-0", "2") },
    ];
    expect(reclaimed({ allocations: recreated, held: ["d1"], pods: ["db-0"] })).toEqual(["a"]);
  });

  it("keeps an allocation of several devices when only some went to another pod", () => {
    const allocations = [allocation("a", 1, 0, "d1", "d2"), allocation("b", 2, 500, "d1")];
    expect(reclaimed({ allocations, held: ["d1", "d2"] })).toEqual([]);
    expect(reclaimed({ allocations, held: ["d1"] })).toEqual(["a"]);
  });
});

describe("collecting attachments whose DEL was lost", () => {
  const allocations = [allocation("a", 1, 0, "d1"), allocation("b", 2, 10, "d1")];

  it("removes one whose pod is gone though the next pod holds the device, at the second check", () => {
    const world = {
      allocations,
      ports: [port("a", "gone", "c1"), port("b", "next", "c2")],
      pods: ["next"],
      held: ["d1"],
    };
    expect(plan({ ...world, firstLook: true }).ports).toEqual([]);
    expect(plan(world).ports).toEqual(["vhu-c1"]);
  });

  it("keeps one that a guest is connected to, a recent one, and one whose pod is not known", () => {
    expect(plan({ allocations, ports: [port("a", "gone", "c1")], connected: ["a"] }).ports).toEqual([]);
    expect(plan({ allocations, ports: [port("a", "gone", "c1", NOW - 1)] }).ports).toEqual([]);
    expect(plan({ allocations, ports: [port("a", "", "c1")] }).ports).toEqual([]);
  });
});

describe("reclaiming claims", () => {
  it("keeps one while its pod lives, or its guest is connected", () => {
    expect(reclaimed({ allocations: [claimed("a", "p")], pods: ["p"] })).toEqual([]);
    expect(reclaimed({ allocations: [claimed("a", "p")], connected: ["a"] })).toEqual([]);
  });

  it("removes one whose pod is gone at the second check, not at the first", () => {
    const allocations = [claimed("a", "p")];
    expect(reclaimed({ allocations, pods: ["other"], firstLook: true })).toEqual([]);
    expect(reclaimed({ allocations, pods: ["other"] })).toEqual(["a"]);
    // Kubelet gave the claim to the next pod without preparing it again.
    expect(reclaimed({ allocations, pods: ["other"], claims: ["c"] })).toEqual([]);
  });

  it("removes one that kubelet has unprepared at once, whatever else holds it", () => {
    const world = { allocations: [claimed("a", "p", true)], pods: ["p"], connected: ["a"] };
    expect(reclaimed({ ...world, ports: [port("a", "p", "claim-u")], firstLook: true })).toEqual(["a"]);
  });
});
