import { describe, expect, it } from "vitest";
import type { FailureCode } from "../../failure/catalogue.ts";
import { Failure } from "../../failure/failure.ts";
import type { PortRecord } from "../../records/port-record.ts";
import type { NodeEvent } from "./event.ts";
import { NodeEvents } from "./node-events.ts";

const record = (interfaceName: string, pool = "sockets"): PortRecord => ({
  ...{
    startedAtMs: 1,
    bootId: "boot",
    releases: [],
    containerId: "c1",
    interfaceName,
    state: "attached",
    allocationId: "a".repeat(16),
    device: "d",
  },
  ...{ pool, portName: `vhu-${interfaceName}`, bridge: "br0", settings: {}, createdAt: 1 },
  ...{ switchSocketPath: "/s", podSocketPath: "/p", mac: "02:00:00:00:00:01", network: "blue", netns: "/n" },
  ...{ podNamespace: "tenant", podName: "vm", podUid: "u-1" },
});

function node(records: readonly PortRecord[] = [record("net1")]) {
  const posted: NodeEvent[] = [];
  const state = { downFor: new Map<string, number>(), unsettled: new Set<string>(), isHealthy: true };
  const events = new NodeEvents({
    node: "worker-1",
    ports: { list: () => records },
    post: (event) => posted.push(event),
    downFor: () => state.downFor,
    unsettled: () => state.unsettled,
    pools: () => [{ name: "sockets", isHealthy: state.isHealthy }],
  });
  return { events, posted, state };
}

const POD = { kind: "Pod", namespace: "tenant", name: "vm", uid: "u-1" };
const add = (CNI_IFNAME: string) => ({
  env: {
    ...{ CNI_COMMAND: "ADD", CNI_CONTAINERID: "c1", CNI_IFNAME },
    CNI_ARGS: "IgnoreUnknown=1;K8S_POD_NAMESPACE=tenant;K8S_POD_NAME=vm;K8S_POD_UID=u-1",
  },
});

describe("events of a node", () => {
  it("report an interface that was attached", () => {
    const { events, posted } = node();
    events.answered(add("net1"), { exitCode: 0, stdout: "{}" });
    expect(posted).toEqual([
      {
        regarding: POD,
        ...{ reason: "InterfaceAttached", action: "Attach", subject: "net1" },
        note: "Interface net1 is attached to network blue as port vhu-net1 of bridge br0",
      },
    ]);
  });

  it("report one that could not be attached, for the pod that the runtime names, with code and message", async () => {
    const { events, posted } = node();
    const failed = (code: FailureCode, what = "it broke") =>
      ({ exitCode: 1, stdout: "{}", failure: new Failure({ code, what }) }) as const;
    events.answered(add("net9"), failed("bridge-missing", "there is no bridge br9"));
    // The next try repairs it, or it is unknown which pod it was.
    events.answered(add("net9"), failed("busy"));
    events.answered({ env: { CNI_COMMAND: "ADD" } }, failed("internal"));
    events.answered({ env: { ...add("net9").env, CNI_COMMAND: "DEL" } }, failed("internal"));
    expect(posted).toEqual([
      {
        regarding: POD,
        ...{ reason: "InterfaceFailed", action: "Attach", subject: "net9" },
        note: "Interface net9 cannot be attached: bridge-missing: there is no bridge br9",
      },
    ]);
  });

  it("report keys of a network that are ignored", () => {
    const { events, posted } = node();
    events.answered(add("net1"), { exitCode: 0, stdout: "{}", ignoredKeys: ["spoofchk", "dns.ttl"] });
    expect(posted).toMatchObject([
      {
        regarding: POD,
        reason: "NetworkKeysIgnored",
        note: expect.stringMatching(/ignored: spoofchk, dns.ttl$/),
      },
      { reason: "InterfaceAttached" },
    ]);
  });

  it("report a port that was repaired, and what was wrong with it", () => {
    const { events, posted } = node();
    events.restored(record("net1"), ["it was gone", "its VLAN is 7"]);
    expect(posted).toMatchObject([{ reason: "InterfaceRepaired", subject: "net1" }]);
    expect(posted[0]?.note).toContain("it was gone; its VLAN is 7");
  });

  it("report once a port that two passes could not repair, while its switch is healthy", () => {
    const { events, posted, state } = node([record("net1"), record("net2"), record("net3", "other")]);
    const reported = () => posted.splice(0).map(({ reason, subject }) => [reason, subject]);
    state.unsettled = new Set(["vhu-net1", "unrecorded"]);
    events.passEnded();
    expect(reported()).toEqual([]);
    state.unsettled = new Set(["vhu-net1", "vhu-net2"]);
    for (let pass = 0; pass < 4; pass++) events.passEnded();
    expect(reported()).toEqual([
      ["InterfaceNotRepaired", "net1"],
      ["InterfaceNotRepaired", "net2"],
    ]);
    state.unsettled = new Set();
    events.passEnded();
    state.isHealthy = false;
    state.unsettled = new Set(["vhu-net1", "vhu-net3"]);
    for (let pass = 0; pass < 3; pass++) events.passEnded();
    expect(reported()).toEqual([
      ["InterfaceNotRepaired", "net3"],
      // On the node, instead of one for each of its pods.
      ["SwitchUnreachable", "sockets"],
    ]);
  });

  it("report once a link that stays down, and again when it was up in between", () => {
    const { events, posted, state } = node();
    const reasons = () => posted.splice(0).map(({ reason, note }) => [reason, /\d+ minutes/.exec(note)?.[0]]);
    state.downFor = new Map([["vhu-net1", 60_000]]);
    events.passEnded();
    expect(reasons()).toEqual([]);
    state.downFor = new Map([["vhu-net1", 360_000]]);
    events.passEnded();
    events.passEnded();
    expect(reasons()).toEqual([["InterfaceLinkDown", "6 minutes"]]);
    state.downFor = new Map();
    events.passEnded();
    state.downFor = new Map([["vhu-net1", 300_000]]);
    events.passEnded();
    expect(reasons()).toEqual([["InterfaceLinkDown", "5 minutes"]]);
  });

  it("report on the node a switch that went away and came back, and not one that a new daemon has not reached yet", () => {
    const { events, posted, state } = node();
    state.isHealthy = false;
    events.passEnded();
    state.isHealthy = true;
    events.passEnded();
    expect(posted).toEqual([]);
    state.isHealthy = false;
    for (let pass = 0; pass < 5; pass++) events.passEnded();
    state.isHealthy = true;
    events.passEnded();
    events.passEnded();
    expect(posted.map(({ regarding, reason, subject }) => ({ regarding, reason, subject }))).toEqual([
      { regarding: { kind: "Node", name: "worker-1" }, reason: "SwitchUnreachable", subject: "sockets" },
      { regarding: { kind: "Node", name: "worker-1" }, reason: "SwitchReady", subject: "sockets" },
    ]);
  });
});
