import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { MemoryDataplane } from "../../test/stand-in/dataplane/memory-dataplane.ts";
import { MemoryAllocations, type NotedSwitch } from "../../test/stand-in/records/memory-allocations.ts";
import { parseConfig } from "../config/load.ts";
import type { PoolConfig } from "../config/schema.ts";
import type { AllocationRecord } from "../records/allocation-record.ts";
import { Pools } from "./pools.ts";

let top: string;
let allocations: MemoryAllocations;
let pools: Pools;
/** Of every switch that was opened, in order. */
let opened: { readonly where: PoolConfig["dataplane"]; readonly dataplane: MemoryDataplane }[];
let logged: { readonly msg: string; readonly [field: string]: unknown }[];
/** Two switches of Open vSwitch and one of VPP; their sockets exist. */
let ONE: { type: "ovs-dpdk"; database: string; bridge: string };
let TWO: { type: "ovs-dpdk"; database: string; bridge: string };
let VPP: { type: "vpp"; apiSocket: string; bridge: string };

beforeEach(async () => {
  top = await mkdtemp(join(tmpdir(), "kvu-pools-"));
  ONE = { type: "ovs-dpdk", database: join(top, "one.sock"), bridge: "br1" };
  TWO = { type: "ovs-dpdk", database: join(top, "two.sock"), bridge: "br2" };
  VPP = { type: "vpp", apiSocket: join(top, "vpp.sock"), bridge: "7" };
  for (const name of ["one", "two", "vpp"]) await writeFile(join(top, `${name}.sock`), "");
  allocations = new MemoryAllocations();
  opened = [];
  logged = [];
});
afterEach(async () => {
  await pools.close();
  await rm(top, { recursive: true });
});

const pool = (name: string, dataplane: object, keys: object = {}) => ({ name, dataplane, ...keys });

/** A daemon starts with these pools. */
function start(configured: readonly ReturnType<typeof pool>[]): void {
  const filled = Object.fromEntries(
    configured.map(({ name, ...each }) => [name, { resource: `vhostuser/${name}`, capacity: 4, ...each }]),
  );
  pools = new Pools({
    pools: parseConfig(JSON.stringify({ node: "n", pools: filled }), "c.yaml").pools,
    allocations,
    open: (where) => {
      const dataplane = new MemoryDataplane();
      opened.push({ where, dataplane });
      return dataplane;
    },
    logger: pino({}, { write: (line) => logged.push(JSON.parse(line)) }),
  });
}

function hold(device: string, noted: NotedSwitch): AllocationRecord {
  return allocations.put({ devices: [device], noted });
}

const switchOf = (record: AllocationRecord) => pools.ofAllocation(record)?.config.dataplane;
const messages = () => logged.map(({ msg }) => msg).join("\n");

describe("the pools of a daemon that starts while pods hold devices", () => {
  it.each(["of Open vSwitch", "of VPP"])(
    "serve a pool %s that is no longer configured until its last allocation is gone",
    async (kind) => {
      const where = kind === "of VPP" ? VPP : ONE;
      const noted = { dataplane: where, switchSockets: "/s", socketServer: "switch" } as const;
      const records = [hold("b-00001", noted), hold("b-00002", noted)] as const;
      start([pool("a", TWO)]);
      const port = { allocationId: records[0].id, pool: "b" };
      expect(pools.ofPort(port)).toMatchObject({
        config: { name: "b", dataplane: where, switchSockets: "/s", socketServer: "switch" },
        dataplane: opened[1]?.dataplane,
      });
      expect(pools.ofAllocation(records[1])).toBe(pools.ofPort(port));
      expect([...pools.configured.keys()]).toEqual(["a"]);
      expect(pools.all().map(({ config }) => config.name)).toEqual(["a", "b"]);
      expect(messages()).toContain("serving its pods until the last is gone");
      allocations.remove(records[0]);
      expect(pools.all()).toHaveLength(2);
      allocations.remove(records[1]);
      expect(pools.all()).toHaveLength(1);
      expect(pools.dataplanes()).toEqual([opened[0]?.dataplane]);
      await expect.poll(() => opened[1]?.dataplane.closed).toBe(true);
      expect(opened[0]?.dataplane.closed).toBe(false);
    },
  );

  it("share one connection with a configured pool of the same switch, which stays open", async () => {
    const record = hold("b-00001", { dataplane: ONE });
    start([pool("a", { ...ONE, bridge: "br9" })]);
    expect(opened).toHaveLength(1);
    expect(pools.ofAllocation(record)?.dataplane).toBe(pools.configured.get("a")?.dataplane);
    expect(switchOf(record)?.bridge).toBe("br1");
    allocations.remove(record);
    expect(pools.dataplanes()).toHaveLength(1);
  });

  it("share one connection between paths that lead to the same socket, also while it is not there", async () => {
    await mkdir(join(top, "run"));
    await symlink("run", join(top, "link"));
    const at = (name: string) => ({ ...VPP, apiSocket: join(top, name, "s") });
    start([pool("a", at("run")), pool("b", at("link")), pool("c", VPP)]);
    expect(opened).toHaveLength(2);
    expect(pools.configured.get("b")?.dataplane).toBe(pools.configured.get("a")?.dataplane);
  });

  it("serve older pods in the recorded switch and newer ones in the configured one", async () => {
    const older = hold("a-00001", { dataplane: ONE, switchSockets: "/one" });
    start([pool("a", TWO, { switchSockets: "/var/run/vhostuser/two" })]);
    const newer = hold("a-00002", { dataplane: TWO, switchSockets: "/var/run/vhostuser/two" });
    expect(pools.ofAllocation(older)?.config).toMatchObject({ dataplane: ONE, switchSockets: "/one" });
    expect(pools.ofAllocation(newer)).toBe(pools.configured.get("a"));
    expect(switchOf(newer)).toEqual(TWO);
    expect(messages()).toContain("serving its older pods in the recorded one");
    allocations.remove(older);
    await expect.poll(() => opened[1]?.dataplane.closed).toBe(true);
    expect(opened[0]?.dataplane.closed).toBe(false);
  });

  it("take a switch for moved where its recorded socket is gone and the configured one is there", async () => {
    const record = hold("a-00001", { dataplane: ONE });
    await rm(ONE.database);
    start([pool("a", TWO)]);
    expect(opened.map(({ where }) => where)).toEqual([TWO]);
    expect(switchOf(record)).toEqual(TWO);
    expect(messages()).toContain("serving the pool's pods in the configured one");
  });

  it("wait for the recorded switch where neither socket is there", async () => {
    const record = hold("a-00001", { dataplane: ONE });
    await rm(ONE.database);
    await rm(TWO.database);
    start([pool("a", TWO)]);
    expect(switchOf(record)).toEqual(ONE);
  });

  it("do not wait for a switch that is gone for good, of a pool that is not configured", async () => {
    const record = hold("b-00001", { dataplane: ONE });
    await rm(ONE.database);
    start([pool("a", TWO)]);
    expect(pools.ofAllocation(record)).toBeUndefined();
    expect(logged).toMatchObject([{ pool: "b", reason: ONE.database, level: 50 }]);
  });

  it("use a newly configured bridge or directory of the same switch", () => {
    const record = hold("a-00001", { dataplane: ONE });
    start([pool("a", { ...ONE, bridge: "br9", runDirectory: "/run/other" })]);
    expect(switchOf(record)).toEqual({ ...ONE, bridge: "br9", runDirectory: "/run/other" });
    expect(logged).toEqual([]);
  });

  it("find a port whose allocation's record is gone by the name of its pool", () => {
    start([pool("a", ONE)]);
    expect(pools.ofPort({ allocationId: "gone", pool: "a" })).toBe(pools.configured.get("a"));
    expect(pools.ofPort({ allocationId: "gone", pool: "b" })).toBeUndefined();
  });

  it("leave a record of a kind of switch that this release does not know to the configuration", () => {
    const dataplane = { type: "hyper-switch", bridge: "b" };
    const [a, b] = [hold("a-00001", { dataplane }), hold("b-00001", { dataplane })];
    start([pool("a", TWO)]);
    expect([switchOf(a), switchOf(b)]).toEqual([TWO, undefined]);
    expect(logged).toMatchObject([{ pool: "b", msg: expect.stringContaining("not configured") }]);
  });
});
