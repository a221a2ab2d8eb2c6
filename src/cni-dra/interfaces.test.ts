import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { waitUntil } from "../../test/machine/wait-until.ts";
import { RecordingPlugins } from "../../test/stand-in/cni-dra/recording-plugins.ts";
import { ManualClock } from "../../test/stand-in/manual-clock.ts";
import { silentLogger } from "../logging/logger.ts";
import { RecordStore } from "../records/record-store.ts";
import {
  type InterfacePlan,
  type InterfaceRecord,
  interfaceKey,
  interfaceRecordKind,
} from "./interface-record.ts";
import { Interfaces } from "./interfaces.ts";

const POD = { namespace: "ns", name: "pod", uid: "pod-uid" };
const CLAIM = { namespace: "ns", name: "c", uid: "c-uid" };

const planOf = (request: string, ifName: string, more: Partial<InterfacePlan> = {}): InterfacePlan => ({
  ...{ claim: CLAIM, pod: POD, request, pool: "n1", device: "cni", ifName },
  network: { cniVersion: "1.0.0", name: "n", plugins: [{ type: "one" }, { type: "two" }] },
  ...more,
});

let directory: string;
let plugins: RecordingPlugins;
let clock: ManualClock;
let stop: AbortController;
let ended: Promise<void>;
let records: RecordStore<InterfaceRecord>;
let interfaces: Interfaces;
/** Readiness of the interfaces, as last reported. */
let reported: Map<string, string>;
/** Interfaces of which a DEL was reported. */
let dels: string[];

/** The driver's process starts, on the disk of the one before. */
async function start(): Promise<void> {
  records = await RecordStore.open(join(directory, "state"), interfaceRecordKind, silentLogger);
  stop = new AbortController();
  reported = new Map();
  dels = [];
  interfaces = new Interfaces({
    ...{ records, delegate: plugins.delegate, clock, logger: silentLogger },
    places: { cdiDirectory: join(directory, "cdi"), readyDirectory: join(directory, "ready") },
    hasNetns: async (path) => existsSync(path),
    reportDel: ({ ifName }) => dels.push(ifName),
    report: (record, problem) => {
      const isAdded = record.attachments.some(({ state }) => state === "added");
      reported.set(record.ifName, problem?.what ?? (isAdded ? "ready" : "not ready"));
    },
  });
  ended = interfaces.run(stop.signal);
}
async function kill(): Promise<void> {
  stop.abort();
  await ended;
}

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "kvu-cni-dra-"));
  plugins = new RecordingPlugins(join(directory, "bin"));
  await plugins.install("one", "two");
  clock = new ManualClock(1_000_000);
  await start();
});
afterEach(async () => {
  await kill();
  await rm(directory, { recursive: true });
});

const netnsOf = (id: string) => join(directory, `netns-${id}`);
/** A sandbox with its network namespace. */
async function sandbox(id: string) {
  await writeFile(netnsOf(id), "");
  return { ...POD, id, netns: netnsOf(id) };
}
/** The runtime's network namespace is gone. */
const removeNetns = (id: string) => rm(netnsOf(id));
/** Whether a container can start that mounts the interface's files; existsSync follows the link to the namespace. */
const isReady = (request: string) =>
  ["json", "netns"].every((suffix) =>
    existsSync(join(directory, "ready", `${interfaceKey({ claim: CLAIM, request })}.${suffix}`)),
  );
const short = (calls: readonly string[]) => calls.map((call) => call.replaceAll(`${directory}/netns-`, ""));
const takeCalls = async () => short(await plugins.takeCalls());
const untilCalled = (count: number) =>
  waitUntil(async () => (await plugins.calls()).length === count, { what: `${count} calls of plugins` });

describe("a sandbox that starts", () => {
  it("gets its interfaces in the order of the claims, each by all plugins of its network", async () => {
    await interfaces.prepare([planOf("b", "net2"), planOf("a", "net1")]);
    await interfaces.runPodSandbox(await sandbox("s1"));
    expect(await takeCalls()).toEqual([
      "ADD one net2 s1 s1",
      "ADD two net2 s1 s1",
      "ADD one net1 s1 s1",
      "ADD two net1 s1 s1",
    ]);
    expect(await plugins.stdinOf("ADD", "two")).toMatchObject({
      ...{ type: "two", name: "n", cniVersion: "1.0.0" },
      prevResult: { ips: [{ address: "10.1.2.3/24" }, {}] },
    });
    expect(await plugins.env()).toMatch(
      "CNI_ARGS=IgnoreUnknown=1;K8S_POD_NAMESPACE=ns;K8S_POD_NAME=pod;K8S_POD_INFRA_CONTAINER_ID=s1;K8S_POD_UID=pod-uid",
    );
    expect([...reported]).toEqual([
      ["net2", "ready"],
      ["net1", "ready"],
    ]);
    const text = await readFile(join(directory, "ready", "c-uid_a.json"), "utf8");
    expect(JSON.parse(text)).toMatchObject({ interfaces: [{}, { name: "net1" }] });
  });

  it("gets ADD once for its id and ifName; repeated Run gives the same result (NRI 11)", async () => {
    await interfaces.prepare([planOf("a", "net1")]);
    const pod = await sandbox("s1");
    await Promise.all([interfaces.runPodSandbox(pod), interfaces.runPodSandbox(pod)]);
    await kill();
    await start();
    await interfaces.runPodSandbox(pod);
    await interfaces.createContainer(pod);
    expect(await takeCalls()).toEqual(["ADD one net1 s1 s1", "ADD two net1 s1 s1"]);
  });

  it("of a host-network or claimless pod passes, whatever others wait for (NRI 10)", async () => {
    await interfaces.prepare([planOf("a", "net1")]);
    await plugins.setHeld(true);
    const waiting = interfaces.runPodSandbox(await sandbox("s1"));
    for (const netns of [netnsOf("s2"), undefined]) {
      const pod = { ...POD, uid: "other", id: "s2", ...(netns && { netns }) };
      await interfaces.runPodSandbox(pod);
      await interfaces.createContainer(pod);
      await interfaces.stopPodSandbox(pod);
      await interfaces.removePodSandbox(pod);
    }
    await plugins.setHeld(false);
    await waiting;
    expect(await takeCalls()).toEqual(["ADD one net1 s1 s1", "ADD two net1 s1 s1"]);
  });

  it("with the host's network and a claim is refused", async () => {
    await interfaces.prepare([planOf("a", "net1")]);
    await expect(interfaces.runPodSandbox({ ...POD, id: "s1" })).rejects.toThrow(
      "invalid-claim: the pod has the host's network, or its network namespace is gone (claim ns/c, request a)",
    );
  });

  it("whose second ADD fails gets DEL of both, and the pod's event shows why (NRI 12)", async () => {
    await interfaces.prepare([planOf("a", "net1"), planOf("b", "net2")]);
    await plugins.setFailing("ADD", "net2", true);
    const pod = await sandbox("s1");
    await expect(interfaces.runPodSandbox(pod)).rejects.toThrow(
      'cni-plugin-failed: CNI plugin "one": no carrier on net2',
    );
    expect((await takeCalls()).slice(2)).toEqual([
      "ADD one net2 s1 s1",
      "DEL two net2 s1 s1",
      "DEL one net2 s1 s1",
      "DEL two net1 s1 s1",
      "DEL one net1 s1 s1",
    ]);
    expect([isReady("a"), isReady("b")]).toEqual([false, false]);
    expect(reported.get("net2")).toContain("no carrier");
    // The runtime sends that at once.
    await interfaces.stopPodSandbox(pod);
    await interfaces.removePodSandbox(pod);
    expect(await takeCalls()).toEqual([]);
  });

  it("is a pod's next one: the interfaces of the one before end first, without another Prepare", async () => {
    await interfaces.prepare([planOf("a", "net1")]);
    await interfaces.runPodSandbox(await sandbox("s1"));
    await removeNetns("s1");
    await takeCalls();
    await interfaces.runPodSandbox(await sandbox("s2"));
    expect(await takeCalls()).toEqual([
      "DEL two net1 s1 none",
      "DEL one net1 s1 none",
      "ADD one net1 s2 s2",
      "ADD two net1 s2 s2",
    ]);
    expect(isReady("a")).toBe(true);
  });
});

describe("a sandbox that ends", () => {
  beforeEach(async () => {
    await interfaces.prepare([planOf("a", "net1")]);
    await interfaces.runPodSandbox(await sandbox("s1"));
    await takeCalls();
  });

  it.each(["there", "not named", "gone"])(
    "has DEL once, with its netns %s and where it ends twice (NRI 14)",
    async (netns) => {
      if (netns === "gone") await removeNetns("s1");
      const pod = { ...POD, id: "s1", ...(netns !== "not named" && { netns: netnsOf("s1") }) };
      await interfaces.stopPodSandbox(pod);
      await interfaces.stopPodSandbox(pod);
      await interfaces.removePodSandbox(pod);
      const path = netns === "gone" ? "none" : "s1";
      expect(await takeCalls()).toEqual([`DEL two net1 s1 ${path}`, `DEL one net1 s1 ${path}`]);
      expect(await plugins.stdinOf("DEL", "one")).toMatchObject({ prevResult: { ips: [{}, {}] } });
      expect([isReady("a"), reported.get("net1")]).toEqual([false, "not ready"]);
    },
  );

  it("is tried again from disk where a plugin fails, with growing pauses", async () => {
    await plugins.setFailing("DEL", "net1", true);
    await interfaces.stopPodSandbox({ ...POD, id: "s1" });
    await takeCalls();
    await clock.advance(1_000);
    await untilCalled(2);
    await kill();
    await plugins.setFailing("DEL", "net1", false);
    await takeCalls();
    await start();
    await waitUntil(() => records.get("c-uid_a")?.attachments.length === 0, { what: "DEL after a restart" });
    expect(await takeCalls()).toEqual(["DEL two net1 s1 s1", "DEL one net1 s1 s1"]);
  });

  it("without a Stop is cleaned by Unprepare, as after a restart of containerd", async () => {
    await removeNetns("s1");
    await interfaces.unprepare("c-uid");
    expect(await takeCalls()).toEqual(["DEL two net1 s1 none", "DEL one net1 s1 none"]);
    expect(records.list()).toEqual([]);
    await interfaces.unprepare("c-uid");
    await interfaces.unprepare("never-prepared");
    await interfaces.stopPodSandbox({ ...POD, id: "s1" });
    expect(await takeCalls()).toEqual([]);
  });

  it("has a DEL tried of every sandbox, also where that of another one fails", async () => {
    await removeNetns("s1");
    await plugins.setFailing("DEL", "net1", true);
    await interfaces.runPodSandbox(await sandbox("s2"));
    await interfaces.stopPodSandbox({ ...POD, id: "s2" });
    await takeCalls();
    await clock.advance(1_000);
    await untilCalled(4);
    expect(records.get("c-uid_a")?.attachments.map((one) => one.sandbox)).toEqual(["s1", "s2"]);
  });

  it("of one claim leaves the pod's other claims", async () => {
    const other = { ...CLAIM, uid: "d-uid", name: "d" };
    await interfaces.prepare([planOf("a", "net2", { claim: other })]);
    await interfaces.runPodSandbox(await sandbox("s1"));
    await interfaces.unprepare("c-uid");
    expect(records.list().map(({ claim }) => claim.name)).toEqual(["d"]);
    expect(records.get("d-uid_a")?.attachments).toMatchObject([{ state: "added" }]);
  });
});

describe("a DEL that keeps failing", () => {
  const STUCK_MS = 10 * 60_000;
  const state = () => interfaces.dels.failing().map(({ isStuck, since }) => ({ isStuck, since }));

  beforeEach(async () => {
    await interfaces.prepare([planOf("a", "net1")]);
    await interfaces.runPodSandbox(await sandbox("s1"));
    await plugins.setFailing("DEL", "net1", true);
    await interfaces.stopPodSandbox({ ...POD, id: "s1" });
    await takeCalls();
  });

  it("is what Unprepare reports, at the queue's pace, until it succeeds", async () => {
    const failure = 'cni-plugin-failed: CNI plugin "two": no carrier on net1';
    for (let time = 0; time < 3; time++) await expect(interfaces.unprepare("c-uid")).rejects.toThrow(failure);
    // The first Unprepare tries, for it may be long after the last one.
    expect(await takeCalls()).toHaveLength(2);
    await plugins.setFailing("DEL", "net1", false);
    await expect(interfaces.unprepare("c-uid")).rejects.toThrow(failure);
    await clock.advance(60_000);
    await waitUntil(() => records.list().length === 0, { what: "it is tried again" });
    await interfaces.unprepare("c-uid");
  });

  it("is stuck after ten minutes, also over a restart, and not any more once it succeeds", async () => {
    const since = clock.now();
    expect(state()).toEqual([{ isStuck: false, since }]);
    await clock.advance(STUCK_MS / 2);
    await kill();
    await start();
    await waitUntil(() => state().length === 1, { what: "it fails again" });
    await clock.advance(STUCK_MS / 2 - 1);
    expect([state(), dels]).toEqual([[{ isStuck: false, since }], []]);
    await clock.advance(60_000);
    await waitUntil(() => dels.length > 0, { what: "it is reported" });
    expect(state()).toEqual([{ isStuck: true, since }]);
    await plugins.setFailing("DEL", "net1", false);
    dels = [];
    await clock.advance(60_000);
    await waitUntil(() => dels.length > 0, { what: "its end is reported" });
    expect(state()).toEqual([]);
  });

  it.each(["before", "after"])("is given up %s Unprepare: nothing further runs", async (when) => {
    if (when === "after") await expect(interfaces.unprepare("c-uid")).rejects.toThrow("no carrier");
    await takeCalls();
    expect(await interfaces.dels.giveUp(({ ifName }) => ifName === "net2")).toEqual([]);
    const [givenUp] = await interfaces.dels.giveUp(({ ifName }) => ifName === "net1");
    expect(givenUp).toMatchObject({
      attachments: [{ sandbox: "s1" }],
      failure: { code: "cni-plugin-failed" },
    });
    expect([state(), dels]).toEqual([[], ["net1"]]);
    await clock.advance(STUCK_MS);
    await interfaces.unprepare("c-uid");
    expect([await takeCalls(), records.list()]).toEqual([[], []]);
  });

  it("is not given up where the pod has the interface by now", async () => {
    await interfaces.runPodSandbox(await sandbox("s2"));
    await interfaces.dels.giveUp(() => true);
    expect(records.get("c-uid_a")?.attachments).toMatchObject([{ sandbox: "s2", state: "added" }]);
  });
});

describe("the list of sandboxes", () => {
  const settled = (what: string, isSo: () => boolean) => waitUntil(isSo, { what });

  it("ends what those had that are gone, and leaves what is about to be listed", async () => {
    await interfaces.prepare([planOf("a", "net1"), planOf("b", "net2", { pod: { ...POD, uid: "other" } })]);
    await interfaces.runPodSandbox(await sandbox("s1"));
    await interfaces.runPodSandbox({ ...(await sandbox("s2")), uid: "other" });
    await removeNetns("s1");
    await interfaces.synchronize([]);
    await settled("s1 is removed", () => records.get("c-uid_a")?.attachments.length === 0);
    expect(records.get("c-uid_b")?.attachments).toHaveLength(1);
    await clock.advance(300_000);
    await interfaces.synchronize([]);
    await settled("s2 is removed", () => records.get("c-uid_b")?.attachments.length === 0);
  });

  it("never ends what was prepared and has no sandbox yet", async () => {
    await interfaces.prepare([planOf("a", "net1")]);
    await clock.advance(600_000);
    await interfaces.synchronize([]);
    await interfaces.runPodSandbox(await sandbox("s1"));
    expect(isReady("a")).toBe(true);
  });

  it("makes what a sandbox lacks that started without the driver", async () => {
    await interfaces.prepare([planOf("a", "net1")]);
    await interfaces.synchronize([await sandbox("s1")]);
    await settled("the interface is there", () => isReady("a"));
  });

  it("makes nothing where two sandboxes of a pod live", async () => {
    await interfaces.prepare([planOf("a", "net1")]);
    await interfaces.synchronize([await sandbox("s1"), await sandbox("s2")]);
    expect(await takeCalls()).toEqual([]);
  });

  it("begins an ADD from its start that a kill cut short", async () => {
    await interfaces.prepare([planOf("a", "net1")]);
    await plugins.setHeld(true);
    const pod = await sandbox("s1");
    const running = interfaces.runPodSandbox(pod);
    await settled("the plugin runs", () => records.get("c-uid_a")?.attachments[0]?.state === "adding");
    const state = await readFile(join(directory, "state/journal"), "utf8");
    await plugins.setHeld(false);
    await running;
    await kill();
    // The disk is as it was when the process was killed.
    await writeFile(join(directory, "state/journal"), state);
    await start();
    await takeCalls();
    await interfaces.synchronize([pod]);
    await settled("the interface is there", () => reported.get("net1") === "ready");
    expect((await takeCalls()).map((call) => call.split(" ").slice(0, 2).join(" "))).toEqual([
      ...["DEL two", "DEL one", "ADD one", "ADD two"],
    ]);
  });
});

describe("a container", () => {
  it("is not created before the interfaces are there that its sandbox was late to get", async () => {
    await interfaces.prepare([planOf("a", "net1")]);
    await plugins.setFailing("ADD", "net1", true);
    const pod = await sandbox("s1");
    await expect(interfaces.runPodSandbox(pod)).rejects.toThrow("no carrier");
    await expect(interfaces.createContainer(pod)).rejects.toThrow("no carrier");
    await plugins.setFailing("ADD", "net1", false);
    await interfaces.createContainer(pod);
    expect(isReady("a")).toBe(true);
  });

  it("that mounts an interface cannot start in another sandbox than the one that has it", async () => {
    await interfaces.prepare([planOf("a", "net1")]);
    await interfaces.runPodSandbox(await sandbox("s1"));
    await kill();
    await removeNetns("s1");
    await sandbox("s2");
    expect(isReady("a")).toBe(false);
    await start();
    expect(isReady("a")).toBe(false);
  });

  it("can start although the driver was killed before it had said that the interface is there", async () => {
    await interfaces.prepare([planOf("a", "net1")]);
    await interfaces.runPodSandbox(await sandbox("s1"));
    await kill();
    await rm(join(directory, "ready"), { recursive: true });
    await start();
    expect([isReady("a"), reported.get("net1")]).toEqual([true, "ready"]);
  });
});

describe("Prepare", () => {
  it("changes nothing where it is repeated", async () => {
    const first = await interfaces.prepare([planOf("a", "net1"), planOf("b", "net2")]);
    await interfaces.runPodSandbox(await sandbox("s1"));
    const again = await interfaces.prepare([planOf("a", "net1"), planOf("b", "net2")]);
    expect(again.map(({ sequence }) => sequence)).toEqual(first.map(({ sequence }) => sequence));
    expect(again.map(({ attachments }) => attachments.length)).toEqual([1, 1]);
  });

  it("of a pod's next claim comes later in the order of ADDs, whichever is prepared first", async () => {
    const [first, second] = [interfaces.takeSequence(), interfaces.takeSequence()];
    const other = { ...CLAIM, uid: "d-uid", name: "d" };
    await interfaces.prepare([planOf("a", "net2", { claim: other })], second);
    await interfaces.prepare([planOf("a", "net1")], first);
    await interfaces.runPodSandbox(await sandbox("s1"));
    expect((await takeCalls()).filter((call) => call.startsWith("ADD one"))).toEqual([
      ...["ADD one net1 s1 s1", "ADD one net2 s1 s1"],
    ]);
  });

  it("for another pod ends what the one before has, with that one's name", async () => {
    await interfaces.prepare([planOf("a", "net1")]);
    await interfaces.runPodSandbox(await sandbox("s1"));
    await plugins.setFailing("DEL", "net1", true);
    const next = planOf("a", "net1", { pod: { ...POD, name: "next", uid: "next-uid" } });
    await expect(interfaces.prepare([next])).rejects.toThrow("no carrier on net1");
    expect(await plugins.env()).toContain("K8S_POD_NAME=pod;");
    await plugins.setFailing("DEL", "net1", false);
    const isOver = async () => {
      await clock.advance(1_000);
      return records.list().length === 0;
    };
    await waitUntil(isOver, { what: "the pod before has nothing" });
    await interfaces.prepare([next]);
    expect(records.list()).toMatchObject([{ pod: { name: "next" }, attachments: [] }]);
  });

  it("refuses an interface name that another claim of the pod has", async () => {
    await interfaces.prepare([planOf("a", "net1")]);
    const other = { ...CLAIM, uid: "d-uid", name: "d" };
    await expect(interfaces.prepare([planOf("a", "net1", { claim: other })])).rejects.toThrow(
      "invalid-claim: claim c of the same pod has ifName net1 too (claim ns/d, request a)",
    );
  });
});
