import { readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ReconcilerRig } from "../../test/stand-in/reconcile/reconciler-rig.ts";
import type { ReconcileObserver } from "./reconcile-observer.ts";
import type { Reconciler } from "./reconciler.ts";

/** Between two passes, and from one look at all ports to the next at least. */
const [REST_MS, ALL_PORTS_QUIET_MS] = [1_000, 750];
/** Before each try of a port that cannot be repaired. */
const PAUSES_MS = [100, 200, 400, 400, 400, 400, 400, 800, 1_600, 3_200];

let rig: ReconcilerRig;
beforeEach(async () => {
  rig = await ReconcilerRig.open();
});
afterEach(() => rig.close());

interface Resting {
  readonly loop: Reconciler;
  /** How often kubelet's list was read. */
  readonly lists: () => number;
  /** Other sleeps than rests since then, which take no time. */
  readonly pauses: number[];
  /** Ports that the switch was asked for since then. */
  readonly asked: string[];
}

/**
 * A reconciler that rests after its first pass until it is disturbed.
 * @param onPause hears of what is added to `pauses`; what it returns is waited for
 */
async function resting(
  observer: Partial<ReconcileObserver> = {},
  onPause: (ms: number, pauses: readonly number[]) => unknown = () => undefined,
): Promise<Resting> {
  let lists = 0;
  let rests = 0;
  const pauses: number[] = [];
  const asked: string[] = [];
  const { one } = rig.switches;
  const ensure = one.ensurePort.bind(one);
  one.ensurePort = (request, signal) => {
    asked.push(request.name);
    return ensure(request, signal);
  };
  const loop = rig.reconciler({
    observer,
    onList: () => {
      lists += 1;
    },
    clock: {
      now: () => rig.now,
      monotonic: () => rig.now,
      sleep: async (ms, signal) => {
        if (ms !== REST_MS) {
          pauses.push(ms);
          await onPause(ms, pauses);
          return;
        }
        rests += 1;
        await new Promise((_, reject) => {
          if (signal?.aborted) reject(signal.reason);
          signal?.addEventListener("abort", reject, { once: true });
        });
      },
    },
  });
  loop.start();
  await expect.poll(() => rests).toBe(1);
  pauses.length = 0;
  asked.length = 0;
  return { loop, lists: () => lists, pauses, asked };
}

describe("a reconciler that is woken", () => {
  it("restores all ports at once, again until the switch has its bridge, and reclaims nothing", async () => {
    const names = await rig.attach(40);
    const { one } = rig.switches;
    const { loop, lists, pauses } = await resting({}, (_ms, { length }) => {
      if (length === 4) one.bridges.add("br0");
    });
    expect(one.ports.size).toBe(40);
    // It restarts, without anything for a while.
    one.ports.clear();
    one.bridges.clear();
    loop.wake();
    await expect.poll(() => [...one.ports.keys()].sort()).toEqual(names);
    expect(pauses).toEqual(PAUSES_MS.slice(0, 4));
    expect(lists()).toBe(1);
    await loop.close();
  });

  it("tries a port that cannot be restored again, it alone, and leaves it to the next pass in the end", async () => {
    const [broken = "", ...others] = await rig.attach(3);
    rig.switches.one.foreign.add(broken);
    const { loop, pauses, asked } = await resting();
    loop.wake();
    await expect.poll(() => pauses).toEqual(PAUSES_MS);
    const tries = PAUSES_MS.length + 1;
    await expect.poll(() => asked.filter((name) => name === broken)).toHaveLength(tries);
    expect(asked.filter((name) => others.includes(name)).sort()).toEqual(others);
    // Somebody changes it again: that is looked at, and no more.
    loop.disturbed([broken]);
    await expect.poll(() => asked.filter((name) => name === broken)).toHaveLength(tries + 1);
    expect(pauses).toEqual([...PAUSES_MS, 50]);
    await loop.close();
  });

  it("tries a port that somebody changed again, until it is as it was", async () => {
    const [one = "", two = ""] = await rig.attach(2);
    const { foreign, ports } = rig.switches.one;
    const { loop, asked } = await resting({}, (ms) => {
      if (ms === 800) foreign.delete(two);
    });
    ports.delete(two);
    foreign.add(two);
    loop.disturbed([two]);
    await expect.poll(() => [...ports.keys()].sort()).toEqual([one, two]);
    expect(new Set(asked)).toEqual(new Set([two]));
    expect(asked).toHaveLength(9);
    await loop.close();
  });

  it("takes its time to look at all ports again, however often it could be any of them", async () => {
    await rig.attach(2);
    const quiet = Promise.withResolvers<void>();
    const { loop, asked, pauses } = await resting({}, (ms) => ms === ALL_PORTS_QUIET_MS && quiet.promise);
    for (let times = 0; times < 3; times++) loop.disturbed("all");
    await expect.poll(() => pauses).toEqual([50, ALL_PORTS_QUIET_MS]);
    await expect.poll(() => asked).toHaveLength(2);
    for (let times = 0; times < 3; times++) loop.disturbed("all");
    // What is next in line is done meanwhile.
    loop.disturbed(["vhu-net0"]);
    await expect.poll(() => asked).toHaveLength(3);
    quiet.resolve();
    await expect.poll(() => asked).toHaveLength(5);
    await loop.close();
  });

  it("looks at ports that somebody changed at once, at no others, and takes no pass for it", async () => {
    const [one = "", two = ""] = await rig.attach(2);
    const repaired: string[] = [];
    const { loop, lists } = await resting({ repaired: (kind) => repaired.push(kind) });
    expect(repaired.splice(0)).toEqual(["port", "port"]);
    rig.switches.one.ports.clear();
    loop.disturbed([one]);
    await expect.poll(() => [...rig.switches.one.ports.keys()]).toEqual([one]);
    loop.disturbed("all");
    await expect.poll(() => [...rig.switches.one.ports.keys()].sort()).toEqual([one, two]);
    expect(repaired).toEqual(["port", "port"]);
    expect(lists()).toBe(1);
    await loop.close();
  });

  it("restores a device-info file and an allocation's directory that somebody removes, as soon as that is seen", async () => {
    await rig.allocate("one");
    rig.now += 60_000;
    const { loop, lists } = await resting();
    const [allocation] = rig.records.allocations.list();
    if (allocation === undefined) throw new Error("no allocation");
    const file = join(rig.config.deviceInfoDirectory, "dp", "vhostuser-one-one-00000-device.json");
    const before = await readFile(file, "utf8");
    await rm(file);
    await expect.poll(() => readFile(file, "utf8").catch(() => "")).toBe(before);
    await rm(join(rig.config.root, allocation.id), { recursive: true });
    await expect
      .poll(() => readdir(join(rig.config.root, allocation.id)).catch(() => []))
      .toEqual(["one-00000"]);
    expect(lists()).toBe(1);
    await loop.close();
  });
});
