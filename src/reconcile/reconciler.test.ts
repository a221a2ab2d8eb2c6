import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ManualClock } from "../../test/stand-in/manual-clock.ts";
import { ReconcilerRig } from "../../test/stand-in/reconcile/reconciler-rig.ts";
import { changeEntries } from "../../test/stand-in/records/journal-files.ts";
import { listAllocationDirectories } from "../allocation/socket-directories.ts";
import { Failure } from "../failure/failure.ts";
import { silentLogger } from "../logging/logger.ts";
import { monitorPool } from "../pools/pool-monitor.ts";
import type { Pool } from "../pools/pools.ts";

let rig: ReconcilerRig;
beforeEach(async () => {
  rig = await ReconcilerRig.open();
});
afterEach(() => rig.close());

describe("a pass of the reconciler", () => {
  it("reclaims what no pod holds, at the second check", async () => {
    await rig.allocate("one");
    rig.now += 60_000;
    const one = rig.reconciler();
    await one.pass();
    expect(rig.records.allocations.list()).toHaveLength(1);
    await one.pass();
    expect(rig.records.allocations.list()).toEqual([]);
    expect(await listAllocationDirectories(rig.config.root)).toEqual([]);
  });

  it("warns of nothing while a switch is away, which its pool's monitor does, and of another failure once", async () => {
    await rig.attach(3);
    const lines: unknown[] = [];
    const note = (fields: unknown, text?: string) => void lines.push({ ...(fields as object), text });
    const logger = { ...silentLogger, child: silentLogger.child, info: note, warn: note, error: note };
    let hasFailed = false;
    const onList = () => {
      if (hasFailed) throw new Error("kubelet is away");
    };
    const one = rig.reconciler({ logger, onList });
    rig.switches.one.dead = true;
    for (let pass = 0; pass < 3; pass++) await one.pass();
    expect(lines).toEqual([]);
    rig.switches.one.dead = false;
    await one.pass();
    lines.length = 0;
    hasFailed = true;
    for (let pass = 0; pass < 3; pass++) await one.pass();
    const failed = "a stage of the reconcile pass failed";
    expect(lines.splice(0)).toMatchObject([{ stage: "reclaim", text: failed, reason: "kubelet is away" }]);
    hasFailed = false;
    for (let pass = 0; pass < 3; pass++) await one.pass();
    expect(lines[0]).toMatchObject({ stage: "reclaim", text: "a stage of the reconcile pass works again" });
  });

  it("warns of no port of a switch that hangs, once its pool's monitor has", async () => {
    await rig.attach(3);
    const { one: dataplane } = rig.switches;
    const late = new Failure({ code: "dataplane-timeout", what: "the switch did not answer in time" });
    const hang = () => Promise.reject(late);
    Object.assign(dataplane, { probe: hang, ensurePort: hang, listPorts: hang, removeStrays: hang });
    const lines: (string | undefined)[] = [];
    const warn = (_: unknown, text?: string) => void lines.push(text);
    const logger = { ...silentLogger, child: silentLogger.child, warn };
    const one = rig.reconciler({ logger });
    await one.pass();
    expect(lines.filter((line) => line === "port cannot be repaired")).toHaveLength(3);
    lines.length = 0;
    const probed = Promise.withResolvers<unknown>();
    const [config] = rig.config.pools;
    if (config === undefined) throw new Error("no pool");
    const pool = { config, dataplane } as Pool;
    const monitor = monitorPool({ pool, onProbed: probed.resolve, clock: new ManualClock(), logger });
    await probed.promise;
    await monitor.close();
    await one.pass();
    expect(lines).toEqual(["pool switch is not ready"]);
  });

  it("repairs only the ports that the switch does not call settled, where it can say so, and all where it fails", async () => {
    await rig.attach(3);
    const { one: dataplane } = rig.switches;
    const ensured: string[] = [];
    const ensurePort = dataplane.ensurePort.bind(dataplane);
    dataplane.ensurePort = (request, signal) => {
      ensured.push(request.name);
      return ensurePort(request, signal);
    };
    const tried: string[] = [];
    const one = rig.reconciler({ observer: { portTried: (port) => tried.push(port) } });
    dataplane.settledPorts = async (requests) => requests.map(({ name }) => name).slice(1);
    await one.pass();
    expect(ensured.splice(0)).toEqual(["vhu-net0"]);
    expect(tried.toSorted()).toEqual(["vhu-net0", "vhu-net1", "vhu-net2"]);
    dataplane.settledPorts = async () => Promise.reject(new Error("no answer"));
    await one.pass();
    expect(ensured).toHaveLength(3);
  });

  it("reclaims what was allocated while the clock was ahead, once it has the age that others need", async () => {
    rig.now += 3_600_000;
    await rig.allocate("one");
    rig.now -= 3_600_000;
    const one = rig.reconciler();
    await one.pass();
    rig.now += 9_000;
    await one.pass();
    await one.pass();
    expect(rig.records.allocations.list()).toHaveLength(1);
    rig.now += 1_000;
    await one.pass();
    await one.pass();
    expect(rig.records.allocations.list()).toEqual([]);
  });

  it("removes a directory without a record at the second check, because the clock may just have stepped forward", async () => {
    const id = "a".repeat(16);
    await mkdir(join(rig.config.root, id, "one-00000"), { recursive: true });
    rig.now = Date.now() + 3_600_000;
    const one = rig.reconciler();
    await one.pass();
    expect(await listAllocationDirectories(rig.config.root)).toEqual([id]);
    await one.pass();
    expect(await listAllocationDirectories(rig.config.root)).toEqual([]);
  });

  it("keeps the directory of an allocation whose record is damaged, at this start and at the next", async () => {
    await rig.allocate("one");
    const ids = await listAllocationDirectories(rig.config.root);
    await changeEntries(join(rig.config.recordsDirectory, "allocations"), (line) =>
      line.replace("ownership", "x"),
    );
    rig.now = Date.now() + 3_600_000;
    for (let start = 0; start < 2; start++) {
      await rig.reopenRecords();
      expect(rig.records.allocations.list()).toEqual([]);
      const one = rig.reconciler();
      await one.pass();
      await one.pass();
      expect(await listAllocationDirectories(rig.config.root)).toEqual(ids);
    }
  });

  it("reports which ports it could not repair, and what of a deleted pod it could not remove, for as long as that lasts", async () => {
    await rig.attach(2);
    rig.now += 60_000;
    const unsettled = new Set<string>();
    const left: [string, number][] = [];
    const observer = {
      portTried: (port: string, isSettled: boolean) =>
        void (isSettled ? unsettled.delete(port) : unsettled.add(port)),
      leftover: (what: string, count: number) => left.push([what, count]),
    };
    const one = rig.reconciler({ observer });
    rig.switches.one.portError = "no memory";
    await one.pass();
    expect([...unsettled].sort()).toEqual(["vhu-net0", "vhu-net1"]);
    rig.switches.one.portError = undefined;
    rig.switches.one.removePort = async () => {
      throw new Error("it is busy");
    };
    left.length = 0;
    await one.pass();
    expect(unsettled.size).toBe(0);
    expect(Object.fromEntries(left)).toEqual({ allocation: 1, port: 2, directory: 0 });
    delete (rig.switches.one as Partial<typeof rig.switches.one>).removePort;
    await one.pass();
    expect(Object.fromEntries(left)).toEqual({ allocation: 0, port: 0, directory: 0 });
  });

  it("removes and counts what ports left behind in every switch that answers", async () => {
    const repaired: string[] = [];
    const failed: unknown[] = [];
    const observer = {
      repaired: (kind: string) => repaired.push(kind),
      itemFailed: (error: unknown) => failed.push(error),
    };
    rig.switches.one.strays = 1;
    rig.switches.one.dead = true;
    rig.switches.two.strays = 2;
    const one = rig.reconciler({ observer });
    await one.pass();
    expect(repaired).toEqual(["stray", "stray"]);
    expect(failed).not.toEqual([]);
    rig.switches.one.dead = false;
    await one.pass();
    expect(repaired).toHaveLength(3);
  });

  it("continues for one switch while the other does not answer, and leaves the other's allocations", async () => {
    await rig.allocate("one");
    await rig.allocate("two");
    rig.now += 60_000;
    rig.switches.two.dead = true;
    const one = rig.reconciler();
    await one.pass();
    await one.pass();
    expect(rig.records.allocations.list().map(({ pool }) => pool)).toEqual(["two"]);
    rig.switches.two.dead = false;
    await one.pass();
    await one.pass();
    expect(rig.records.allocations.list()).toEqual([]);
  });

  it("removes a port whose owner the switch does not know only when its directory is not in use", async () => {
    const allocationId = "0123456789abcdef";
    const directory = join(rig.config.root, allocationId, "net1");
    await mkdir(directory, { recursive: true });
    const owner = {
      node: "n1",
      podNamespace: "",
      podName: "",
      podUid: "",
      containerId: "",
      network: "",
      mac: "",
    };
    const unknown = { ...owner, interfaceName: "net1", allocationId };
    const socketPath = join(directory, "vhost.sock");
    const port = {
      name: "vhu1",
      bridge: "br0",
      socketPath,
      owner: unknown,
      link: "down",
      connected: false,
    } as const;
    rig.switches.one.ports.set(port.name, port);
    const one = rig.reconciler();
    rig.now = Date.now() + 60_000;
    await writeFile(socketPath, "");
    await one.pass();
    expect([...rig.switches.one.ports.keys()]).toEqual(["vhu1"]);
    await rm(socketPath);
    await one.pass();
    expect([...rig.switches.one.ports.keys()]).toEqual([]);

    rig.switches.one.ports.set(port.name, { ...port, connected: true });
    await rm(join(rig.config.root, allocationId), { recursive: true, force: true });
    await one.pass();
    expect([...rig.switches.one.ports.keys()]).toEqual(["vhu1"]);
    rig.switches.one.ports.set(port.name, port);
    await one.pass();
    expect([...rig.switches.one.ports.keys()]).toEqual([]);
  });
});
