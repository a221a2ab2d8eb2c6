import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ReconcilerRig } from "../../test/stand-in/reconcile/reconciler-rig.ts";
import { listAllocationDirectories } from "../allocation/directory/list.ts";

let rig: ReconcilerRig;
beforeEach(async () => {
  rig = await ReconcilerRig.open();
});
afterEach(() => rig.close());

describe("a pass of the reconciler", () => {
  it("reclaims what nobody holds, after two looks", async () => {
    await rig.allocate("one");
    rig.now += 60_000;
    const one = rig.reconciler();
    await one.pass();
    expect(rig.records.allocations.list()).toHaveLength(1);
    await one.pass();
    expect(rig.records.allocations.list()).toEqual([]);
    expect(await listAllocationDirectories(rig.config.root)).toEqual([]);
  });

  it("reclaims what was allocated while the clock was ahead, once it is as old as the others must be", async () => {
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

  it("removes a directory without a record at the second look, for the clock may just have stepped forward", async () => {
    const id = "a".repeat(16);
    await mkdir(join(rig.config.root, id, "one-00000"), { recursive: true });
    rig.now = Date.now() + 3_600_000;
    const one = rig.reconciler();
    await one.pass();
    expect(await listAllocationDirectories(rig.config.root)).toEqual([id]);
    await one.pass();
    expect(await listAllocationDirectories(rig.config.root)).toEqual([]);
  });

  it("tells which ports it could not settle, and that a pod's leavings stay, for as long as that is so", async () => {
    await rig.attach(2);
    rig.now += 60_000;
    const unsettled: string[][] = [];
    const left: [string, number][] = [];
    const observer = {
      portsTried: (_: unknown, failed: ReadonlySet<string>) => unsettled.push([...failed].sort()),
      leftover: (what: string, count: number) => left.push([what, count]),
    };
    const one = rig.reconciler({ observer });
    rig.switches.one.portError = "no memory";
    await one.pass();
    expect(unsettled).toEqual([["vhu-net0", "vhu-net1"]]);
    rig.switches.one.portError = undefined;
    rig.switches.one.removePort = async () => {
      throw new Error("it does not let go");
    };
    left.length = 0;
    await one.pass();
    expect(unsettled.at(-1)).toEqual([]);
    expect(Object.fromEntries(left)).toEqual({ allocation: 1, port: 2, directory: 0 });
    delete (rig.switches.one as Partial<typeof rig.switches.one>).removePort;
    await one.pass();
    expect(Object.fromEntries(left)).toEqual({ allocation: 0, port: 0, directory: 0 });
  });

  it("clears every switch that answers of what ports left behind, and counts it", async () => {
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

  it("goes on for one switch while the other is silent, whose allocations it leaves", async () => {
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

  it("removes a port whose owner the switch does not tell only when nobody uses its directory", async () => {
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

  it("comes as often as the configuration says by now", async () => {
    let interval = 300;
    let passes = 0;
    let slept = 0;
    const looping = rig.reconciler({
      configNow: () => ({ ...rig.config, reclaim: { ...rig.config.reclaim, intervalSeconds: interval } }),
      onList: () => {
        passes += 1;
      },
      clock: {
        now: () => rig.now,
        monotonic: () => rig.now,
        sleep: async (ms) => {
          slept += ms;
          // Changed while it rests: it must not go on resting for what was asked before.
          if (slept === 5_000) interval = 10;
          if (slept >= 60_000) await new Promise(() => undefined);
          await new Promise((resolve) => setImmediate(resolve));
        },
      },
    });
    looping.start();
    await expect.poll(() => slept).toBeGreaterThanOrEqual(60_000);
    expect(passes).toBe(6);
  });
});
