import { existsSync } from "node:fs";
import { lstat, mkdir, readdir, readFile, readlink, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { ensureSocketDirectories } from "../../src/allocation/socket-directories.ts";
import { ensureServedPort } from "../../src/attachment/ensure-attachment.ts";
import type { NodeContext } from "../../src/attachment/node-context.ts";
import { withdrawSocket } from "../../src/attachment/publish-socket.ts";
import { parseConfig } from "../../src/config/load.ts";
import type { Dataplane } from "../../src/dataplane/dataplane.ts";
import type { PortRequest, PortState } from "../../src/dataplane/port.ts";
import { silentLogger } from "../../src/logging/logger.ts";
import { newAllocationId } from "../../src/names/allocation-id.ts";
import { Pools } from "../../src/pools/pools.ts";
import { Reconciler } from "../../src/reconcile/reconciler.ts";
import type { AllocationRecord } from "../../src/records/allocation-record.ts";
import { portKey } from "../../src/records/port-record.ts";
import { openRecords } from "../../src/records/records.ts";
import { systemClock } from "../../src/sync/clock.ts";
import { KeyedMutex } from "../../src/sync/keyed-mutex.ts";
import { failureOf, portRequest, soon } from "../contract/switch-under-test.ts";
import { startPod } from "../lab/pod.ts";
import { startTestpmd } from "../lab/testpmd.ts";
import { waitUntil } from "../machine/wait-until.ts";
import { poolsByName } from "../stand-in/config/pools-by-name.ts";
import { unobserved } from "../stand-in/reconcile/unobserved.ts";
import { type OvsRig, startOvsRig } from "./ovs-rig.ts";

describe("a socket that OVS-DPDK serves", () => {
  const name = "vhu0123456789ab";
  const interfaceName = "net1";
  let rig: OvsRig;
  let dataplane: Dataplane;
  let context: NodeContext;
  let root: string;
  let switchSockets: string;
  let allocation: AllocationRecord;
  let inPod: string;

  beforeAll(async () => {
    rig = await startOvsRig();
    dataplane = rig.open();
    root = rig.socketDirectory;
    switchSockets = join(root, "switch");
    await mkdir(switchSockets);
    await symlink(switchSockets, join(rig.ovs.directory, "vhu"));
    await rig.ovs.vsctl("set", "Open_vSwitch", ".", "other_config:vhost-sock-dir=vhu");
    await rig.ovs.restartVswitchd();
  });
  beforeEach(async () => {
    context = await contextWith({ switchSockets });
    const id = newAllocationId();
    const ownership = { owner: 107, group: 108, mode: 0o2770 };
    allocation = { id, ownership } as AllocationRecord;
    await ensureSocketDirectories({ root, allocationId: id, names: [interfaceName], ownership });
    inPod = join(root, id, interfaceName, "vhost.sock");
  });
  afterEach(async () => {
    await rig.reset();
    await rm(join(root, allocation.id), { recursive: true });
  });
  afterAll(async () => {
    await dataplane?.close();
    await rig?.close();
  });

  async function contextWith(keys: object): Promise<NodeContext> {
    const switchConfig = { type: "ovs-dpdk", bridge: "br-a", database: rig.ovs.databaseSocket };
    const pool = { name: "dpdk", capacity: 1, dataplane: switchConfig, ...keys };
    const config = parseConfig(JSON.stringify({ node: "node-a", root, pools: poolsByName(pool) }), "test");
    const records = await openRecords(join(rig.run.directory, "records"));
    const { allocations } = records;
    const pools = new Pools({
      pools: config.pools,
      allocations,
      open: () => dataplane,
      logger: silentLogger,
    });
    return { config, pools, records };
  }
  const request = (): PortRequest =>
    portRequest(rig, {
      socketPath: inPod,
      settings: { socketServer: "switch" },
      owner: { interfaceName, allocationId: allocation.id },
    });
  const ensure = (): Promise<PortState> => {
    const pool = context.pools.configured.get("dpdk");
    if (pool === undefined) throw new Error("no pool");
    return ensureServedPort(context, pool, request(), allocation, soon());
  };
  /** One that comes once in an hour, with the interface in its records. */
  const startReconciler = async () => {
    const { owner, name: portName, bridge, settings, mtu } = request();
    const { node: _, ...ofPort } = owner;
    const devices = ["dpdk-00000"];
    const createdAt = Date.now();
    const resource = "vhostuser/dpdk";
    await context.records.allocations.put({
      ...allocation,
      pool: "dpdk",
      resource,
      devices,
      createdAt,
    } as AllocationRecord);
    await context.records.ports.put({
      ...ofPort,
      startedAtMs: 1,
      bootId: "boot",
      releases: [],
      state: "attached",
      device: "dpdk-00000",
      pool: "dpdk",
      portName,
      bridge,
      settings,
      ...(mtu === undefined ? {} : { mtu }),
      switchSocketPath: inPod,
      podSocketPath: "/var/run/vhostuser/dpdk/net1/vhost.sock",
      netns: "/n",
      createdAt,
    });
    const { root, podRoot, deviceInfoDirectory } = context.config;
    const reconciler = new Reconciler({
      context: {
        ...context,
        config: { ...context.config, reclaim: { graceSeconds: 3600, intervalSeconds: 3600 } },
      },
      places: { root, podRoot, deviceInfoDirectory },
      locks: new KeyedMutex(),
      logger: silentLogger,
      observer: unobserved,
      listPods: async () => [],
      ownPod: undefined,
      clock: systemClock,
    });
    reconciler.start();
    return reconciler;
  };
  /** Runs a DPDK program that connects, until the switch sees it. */
  const connect = async (pod: string) => {
    const started = await startPod(rig.run, pod);
    try {
      await startTestpmd(started, {
        socketPath: "/sockets/vhost.sock",
        server: false,
        mac: "02:00:00:00:00:01",
        mounts: [{ hostPath: join(inPod, ".."), containerPath: "/sockets" }],
      });
      await waitUntil(async () => (await dataplane.listPorts(soon()))[0]?.link === "up", {
        what: "the link is up",
      });
    } finally {
      await started.close();
    }
  };

  it("is where a DPDK program looks for it, is its user's, and goes with the port", async () => {
    const { changes: _, ...state } = await ensure();
    expect(state).toMatchObject({ name, socketPath: inPod, socketFile: name });
    expect(await dataplane.listPorts(soon())).toEqual([state]);
    expect(await dataplane.checkPort(request(), soon())).toEqual([]);
    expect(await readdir(switchSockets)).toEqual([]);
    const status = await lstat(inPod);
    expect([status.isSocket(), status.uid, status.gid, status.mode & 0o777]).toEqual([true, 107, 108, 0o660]);
    await connect("first");
    await dataplane.removePort(name, soon());
    withdrawSocket({ root, allocationId: allocation.id, interfaceName });
    expect(await readdir(join(inPod, ".."))).toEqual([]);
    expect(await readdir(switchSockets)).toEqual([]);
  });

  it("may be asked for again, and is the same", async () => {
    await ensure();
    const { ino } = await lstat(inPod);
    await ensure();
    expect((await lstat(inPod)).ino).toBe(ino);
  });

  it("is there again after the switch was killed", async () => {
    await ensure();
    const { ino } = await lstat(inPod);
    await rig.killSwitch();
    await rig.startSwitch();
    await ensure();
    expect((await lstat(inPod)).ino).not.toBe(ino);
    await connect("second");
  });

  it("is moved to its pod again as soon as the switch has restarted, long before the next pass", async () => {
    const reconciler = await startReconciler();
    try {
      await waitUntil(async () => existsSync(inPod), {
        what: "the first pass makes the port",
      });
      const { ino } = await lstat(inPod);
      await rig.killSwitch();
      await rig.startSwitch();
      await waitUntil(async () => (await lstat(inPod)).ino !== ino, {
        what: "the new socket is moved",
      });
      expect(await readdir(switchSockets)).toEqual([]);
      await connect("woken");
    } finally {
      await reconciler.close();
      await context.records.ports.remove(portKey({ allocationId: allocation.id, interfaceName }));
      await context.records.allocations.remove(allocation.id);
    }
  });

  it("is made where a killed switch has left one of its name, which never gets in the switch's way", async () => {
    await dataplane.ensurePort(request(), soon());
    await rig.killSwitch();
    await rig.ovs.vsctl("--no-wait", "del-port", name);
    await rig.startSwitch();
    expect(await readdir(switchSockets)).toEqual([name]);
    await ensure();
    expect((await lstat(inPod)).isSocket()).toBe(true);
    expect(await readFile(rig.ovs.vswitchdLog, "utf8")).not.toContain("failed to bind");
  });

  it("is made again when the pod has removed it", async () => {
    await ensure();
    await rm(inPod);
    await ensure();
    expect((await lstat(inPod)).isSocket()).toBe(true);
  });

  it("takes the place of a link that the pod made, and leaves alone where that leads", async () => {
    const outside = join(root, "outside");
    await writeFile(outside, "precious");
    const before = await lstat(outside);
    await symlink(outside, inPod);
    await ensure();
    expect((await lstat(inPod)).isSocket()).toBe(true);
    expect(await lstat(outside)).toMatchObject({ uid: before.uid, mode: before.mode, size: 8 });
    await rm(outside);
  });

  it("is refused a place where the pod put a directory, and a link stays when it is withdrawn", async () => {
    await mkdir(inPod);
    expect((await failureOf(ensure())).code).toBe("directory-unsafe");
    await rm(inPod, { recursive: true });
    await symlink("/etc/passwd", inPod);
    withdrawSocket({ root, allocationId: allocation.id, interfaceName });
    expect(await readlink(inPod)).toBe("/etc/passwd");
  });

  it("is refused with what to set where the daemon does not know, or knows wrongly, where it is made", async () => {
    context = await contextWith({});
    expect(await failureOf(ensure())).toMatchObject({
      code: "invalid-config",
      message: expect.stringContaining("switchSockets"),
    });
    const wrong = join(root, "wrong");
    await mkdir(wrong);
    context = await contextWith({ switchSockets: wrong });
    expect(await failureOf(ensure())).toMatchObject({
      code: "port-failed",
      message: expect.stringContaining("vhost-sock-dir"),
    });
    expect(await rig.portNames()).toEqual([]);
  });
});
