import { afterEach, beforeEach, expect, it } from "vitest";
import { CniRig } from "../../test/stand-in/cni/cni-rig.ts";
import { MemoryDataplane } from "../../test/stand-in/dataplane/memory-dataplane.ts";
import { ManualClock } from "../../test/stand-in/manual-clock.ts";
import { Pools } from "../pools/pools.ts";
import { answer } from "./answer.ts";
import type { CniContext } from "./cni-context.ts";

let rig: CniRig;
/** Switches of the pools `sockets` and `other`. */
let own: MemoryDataplane;
let other: MemoryDataplane;
let clock: ManualClock;
let context: CniContext;

beforeEach(async () => {
  rig = await CniRig.open();
  clock = new ManualClock(1_000);
  [own, other] = [rig.dataplane, new MemoryDataplane()];
  const { node } = rig.context;
  const [first] = node.config.pools;
  if (first === undefined) throw new Error("no pool");
  const database = "/run/other/db.sock";
  const second = { ...first, name: "other", dataplane: { ...first.dataplane, database } } as typeof first;
  const pools = new Pools({
    pools: [first, second],
    allocations: rig.records.allocations,
    open: (config) => (config.type === "ovs-dpdk" && config.database === database ? other : own),
    logger: rig.context.logger,
  });
  context = { ...rig.context, clock, node: { ...node, pools } };
});
afterEach(() => rig.close());

async function ask(keys: object = {}): Promise<{ exitCode: number; stdout: string }> {
  const stdin = Buffer.from(
    JSON.stringify({ cniVersion: "1.1.0", name: "net", type: "kube-vhostuser", ...keys }),
  );
  const delegate = () => Promise.reject(new Error("no plugin is expected to run"));
  const request = { startedAtMs: 1, env: { CNI_COMMAND: "STATUS" }, stdin, delegate };
  return answer(request, context, AbortSignal.timeout(60_000));
}

/** A switch that does not answer, nor heed its signal. */
function hang(dataplane: MemoryDataplane): void {
  dataplane.probe = () => new Promise(() => undefined);
}

it("is ready as soon as one pool is that the network can use, however long another switch hangs", async () => {
  hang(own);
  expect(await ask()).toMatchObject({ exitCode: 0 });
});

it("asks switches that hang at the same time, each for five seconds", async () => {
  hang(own);
  hang(other);
  const asked = ask();
  await clock.advance(4_999);
  expect(clock.pending).toEqual([1, 1]);
  await clock.advance(1);
  const { stdout } = await asked;
  expect(JSON.parse(stdout)).toMatchObject({
    code: 50,
    msg: expect.stringMatching(/pool sockets.*pool other/),
  });
});

it("is not ready where the switch of the pool that the configuration names is dead", async () => {
  own.dead = true;
  expect(JSON.parse((await ask({ deviceID: "sockets-00001" })).stdout)).toMatchObject({ code: 50 });
  expect((await ask({ deviceID: "other-00001" })).exitCode).toBe(0);
});

it("is not ready where the switch is dead that has the network's interfaces, whatever other switches say", async () => {
  await rig.allocate("sockets-00001");
  await rig.call("ADD");
  own.dead = true;
  expect(JSON.parse((await ask()).stdout)).toMatchObject({
    code: 50,
    msg: expect.stringContaining("pool sockets: the switch does not answer"),
  });
  expect((await ask({ name: "another" })).exitCode).toBe(0);
});

it("is not ready where the bridge that the network names is on no switch", async () => {
  expect(JSON.parse((await ask({ bridge: "br9" })).stdout)).toMatchObject({ code: 50 });
});
