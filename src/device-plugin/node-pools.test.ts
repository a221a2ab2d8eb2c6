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
import { DeviceUses } from "./device-uses.ts";
import { NodePools } from "./node-pools.ts";

const ONE = { type: "ovs-dpdk", database: "/one.sock", bridge: "br1" } as const;
const TWO = { type: "ovs-dpdk", database: "/two.sock", bridge: "br2" } as const;
const VPP = { type: "vpp", apiSocket: "/vpp.sock", bridge: "7" } as const;

let allocations: MemoryAllocations;
let uses: DeviceUses;
let pools: NodePools;
/** Of every switch that was opened, in order. */
let opened: { readonly where: PoolConfig["dataplane"]; readonly dataplane: MemoryDataplane }[];
let logged: { readonly msg: string; readonly [field: string]: unknown }[];

beforeEach(() => {
  allocations = new MemoryAllocations();
  opened = [];
  logged = [];
});
afterEach(async () => {
  await pools.close();
  uses.close();
});

const pool = (name: string, dataplane: object, keys: object = {}) => ({ name, dataplane, ...keys });

/** A daemon that starts with these pools. @param gone sockets that do not exist */
function start(configured: readonly ReturnType<typeof pool>[], gone: readonly string[] = []): void {
  const filled = configured.map((each) => ({ resource: `vhostuser/${each.name}`, capacity: 4, ...each }));
  uses = new DeviceUses(allocations);
  pools = new NodePools({
    pools: parseConfig(JSON.stringify({ node: "n", pools: filled }), "c.yaml").pools,
    open: (where) => {
      const dataplane = new MemoryDataplane();
      opened.push({ where, dataplane });
      return dataplane;
    },
    uses,
    logger: pino({}, { write: (line) => logged.push(JSON.parse(line)) }),
    isThere: (socket) => !gone.includes(socket),
  });
}

function hold(device: string, noted: NotedSwitch): AllocationRecord {
  return allocations.put({ devices: [device], noted });
}

const places = () => opened.map(({ where }) => where);
const words = () => logged.map(({ msg }) => msg).join("\n");

describe("the pools of a daemon that starts while pods hold devices", () => {
  it.each([
    ["of Open vSwitch", ONE],
    ["of VPP", VPP],
  ])(
    "a pool %s that is not configured any more is looked after until its last device is freed",
    async (_kind, where) => {
      const record = hold("b-00001", { dataplane: where, switchSockets: "/s", socketServer: "switch" });
      start([pool("a", TWO)]);
      expect(places()).toEqual([where, TWO]);
      expect(pools.byName.get("b")).toMatchObject({
        config: { name: "b", dataplane: where, switchSockets: "/s", socketServer: "switch" },
        dataplane: opened[0]?.dataplane,
      });
      expect(words()).toContain("looked after until its pods are gone");
      allocations.remove(record);
      expect([...pools.byName.keys()]).toEqual(["a"]);
      await expect.poll(() => opened[0]?.dataplane.closed).toBe(true);
      expect(opened[1]?.dataplane.closed).toBe(false);
    },
  );

  it("shares one connection with a configured pool of the same switch", () => {
    hold("b-00001", { dataplane: ONE });
    start([pool("a", { ...ONE, bridge: "br9" })]);
    expect(opened).toHaveLength(1);
    expect(pools.byName.get("b")?.dataplane).toBe(pools.byName.get("a")?.dataplane);
    expect(pools.byName.get("b")?.config.dataplane.bridge).toBe("br1");
  });

  it("shares one connection between paths that lead to the same socket, also while it is not there", async () => {
    const directory = await mkdtemp(join(tmpdir(), "kvu-pools-"));
    await mkdir(join(directory, "run"));
    await symlink("run", join(directory, "link"));
    const at = (name: string) => ({ ...VPP, apiSocket: join(directory, name, "s") });
    start([pool("a", at("run")), pool("b", at("link")), pool("c", VPP)]);
    expect(opened).toHaveLength(2);
    expect(pools.byName.get("b")?.dataplane).toBe(pools.byName.get("a")?.dataplane);
    await writeFile(join(directory, "elsewhere"), "");
    await symlink("../elsewhere", join(directory, "run", "s"));
    const configured = [...pools.byName.values()].map(({ config }) => config);
    pools.replace(configured);
    expect(opened).toHaveLength(2);
    await rm(directory, { recursive: true });
  });

  it("a pool whose database has another address keeps the old switch until its last device is freed", async () => {
    const older = hold("a-00001", { dataplane: ONE, switchSockets: "/one" });
    const younger = hold("a-00002", { dataplane: ONE, switchSockets: "/one" });
    start([pool("a", TWO, { capacity: 9, switchSockets: "/var/run/vhostuser/two" })]);
    expect(places()).toEqual([ONE]);
    expect(pools.byName.get("a")?.config).toMatchObject({
      capacity: 9,
      dataplane: ONE,
      switchSockets: "/one",
    });
    expect(words()).toContain("other switch waits until its last device is freed");
    allocations.remove(younger);
    expect(opened).toHaveLength(1);
    allocations.remove(older);
    expect(places()).toEqual([ONE, TWO]);
    expect(pools.byName.get("a")?.config).toMatchObject({
      dataplane: TWO,
      switchSockets: "/var/run/vhostuser/two",
    });
    await expect.poll(() => opened[0]?.dataplane.closed).toBe(true);
  });

  it("a pool whose switch moved, so that the old socket is gone, is at the configured one at once", () => {
    hold("a-00001", { dataplane: ONE });
    start([pool("a", TWO)], ["/one.sock"]);
    expect(places()).toEqual([TWO]);
    expect(words()).toContain("get their ports in its configured switch");
  });

  it("a pool whose old switch is away, and the configured one too, waits for the old one", () => {
    hold("a-00001", { dataplane: ONE });
    start([pool("a", TWO)], ["/one.sock", "/two.sock"]);
    expect(places()).toEqual([ONE]);
  });

  it("a pool that is not configured, and whose switch is gone for good, is not waited for", () => {
    hold("b-00001", { dataplane: ONE });
    start([pool("a", TWO)], ["/one.sock"]);
    expect(places()).toEqual([TWO]);
    expect(logged).toMatchObject([{ pool: "b", reason: "no /one.sock" }]);
  });

  it("another bridge or directory of the same switch is taken as it is configured", () => {
    hold("a-00001", { dataplane: ONE });
    start([pool("a", { ...ONE, bridge: "br9", runDirectory: "/run/other" })]);
    expect(places()).toEqual([{ ...ONE, bridge: "br9", runDirectory: "/run/other" }]);
    expect(logged).toEqual([]);
  });

  it("the youngest record tells where a pool is, and one that tells nothing does not count", () => {
    hold("a-00001", { dataplane: ONE });
    hold("a-00002", { dataplane: TWO });
    hold("a-00003", {});
    start([pool("b", VPP)]);
    expect(pools.byName.get("a")?.config.dataplane).toEqual(TWO);
  });

  it.each([
    ["of an older release, which did not note it", undefined],
    ["of a kind of switch that this release does not know", { type: "hyper-switch", bridge: "b" }],
  ])("a record %s leaves the pool to the configuration, and says when there is none", (_what, dataplane) => {
    hold("a-00001", dataplane === undefined ? {} : { dataplane });
    hold("b-00001", dataplane === undefined ? {} : { dataplane });
    start([pool("a", TWO)]);
    expect(places()).toEqual([TWO]);
    expect(logged).toMatchObject([{ pool: "b", msg: expect.stringContaining("put it back") }]);
  });
});
