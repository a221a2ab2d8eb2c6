import { existsSync } from "node:fs";
import { mkdir, mkdtemp, open, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { MemoryDataplane } from "../../test/stand-in/dataplane/memory-dataplane.ts";
import { unobserved } from "../../test/stand-in/reconcile/unobserved.ts";
import { changeEntries } from "../../test/stand-in/records/journal-files.ts";
import { parseConfig } from "../config/load.ts";
import { createAllocator } from "../device-plugin/allocate.ts";
import { silentLogger } from "../logging/logger.ts";
import { portName } from "../names/port-name.ts";
import { Pools } from "../pools/pools.ts";
import { repairPort } from "../reconcile/repair-ports.ts";
import { portKey } from "../records/port-record.ts";
import { openRecords, type Records } from "../records/records.ts";
import { monotonicMs, systemClock } from "../sync/clock.ts";
import { KeyedMutex } from "../sync/keyed-mutex.ts";
import { answer } from "./answer.ts";
import type { CniContext } from "./cni-context.ts";
import { StaleRequestFilter } from "./stale-requests.ts";

const DEVICE = "sockets-00001";
let top: string;
let dataplane: MemoryDataplane;
let records: Records;
let context: CniContext;
let held: string[];
let allocate: (devices: readonly string[]) => Promise<unknown>;

beforeEach(async () => {
  top = await mkdtemp(join(tmpdir(), "kvu-cni-"));
  await mkdir(join(top, "run"));
  dataplane = new MemoryDataplane();
  held = [DEVICE, "sockets-00002", "sockets-00003"];
  await openDaemonState();
});
afterEach(() => rm(top, { recursive: true }));

/** Opens everything from disk again, as a restarted daemon does. */
async function openDaemonState(bootId?: string): Promise<void> {
  const config = parseConfig(
    JSON.stringify({
      node: "n1",
      root: join(top, "run"),
      recordsDirectory: join(top, "records"),
      deviceInfoDirectory: join(top, "devinfo"),
      pools: {
        sockets: {
          resource: "vhostuser/sockets",
          capacity: 4,
          dataplane: { type: "ovs-dpdk", bridge: "br0" },
        },
      },
    }),
    "test",
  );
  records = await openRecords(config.recordsDirectory, silentLogger, bootId);
  const [pool] = config.pools;
  if (pool === undefined) throw new Error("no pool");
  context = {
    node: {
      config,
      records,
      pools: new Pools({
        pools: config.pools,
        allocations: records.allocations,
        open: () => dataplane,
        logger: silentLogger,
      }),
    },
    locks: new KeyedMutex(),
    stale: new StaleRequestFilter(),
    clock: systemClock,
    logger: silentLogger,
    holders: {
      holds: async (_namespace, _name, device) => held.includes(device),
      devicesOf: async () => held,
    },
  };
  const places = {
    root: config.root,
    podRoot: config.podRoot,
    deviceInfoDirectory: config.deviceInfoDirectory,
  };
  allocate = createAllocator({
    pool,
    places,
    allocations: records.allocations,
    clock: systemClock,
    logger: silentLogger,
  });
}

interface Call {
  readonly container?: string;
  readonly ifname?: string;
  readonly config?: object;
  readonly env?: Record<string, string>;
  readonly signal?: AbortSignal;
  /** Default now. */
  readonly startedAtMs?: number;
}

/** A shim that runs no plugins. */
const delegate = () => Promise.reject(new Error("no plugin is expected to run"));
/** The port of an interface on the first allocation. */
const portNamed = (interfaceName: string) => portName(records.allocations.list()[0]?.id ?? "", interfaceName);
const sandboxes = () => [...dataplane.ports.values()].map(({ owner }) => owner.containerId);

async function call(
  command: string,
  options: Call = {},
): Promise<{ exitCode: number; json: Record<string, unknown> | undefined }> {
  const { container = "c1", ifname = "net1", config = {}, env = {} } = options;
  const result = await answer(
    {
      startedAtMs: options.startedAtMs ?? monotonicMs(),
      delegate,
      env: {
        CNI_COMMAND: command,
        CNI_CONTAINERID: container,
        CNI_IFNAME: ifname,
        CNI_NETNS: "/var/run/netns/x",
        CNI_ARGS: "IgnoreUnknown=true;K8S_POD_NAMESPACE=ns;K8S_POD_NAME=pod;K8S_POD_UID=u-1",
        ...env,
      },
      stdin: Buffer.from(
        JSON.stringify({
          cniVersion: "1.1.0",
          name: "net",
          type: "kube-vhostuser",
          deviceID: DEVICE,
          ...config,
        }),
      ),
    },
    context,
    options.signal ?? AbortSignal.timeout(30_000),
  );
  return { exitCode: result.exitCode, json: result.stdout === "" ? undefined : JSON.parse(result.stdout) };
}

describe("ADD", () => {
  it("makes directory and port and answers with one interface", async () => {
    await allocate([DEVICE]);
    const { exitCode, json } = await call("ADD", {
      config: { mtu: 9000, runtimeConfig: { mac: "CA:FE:CA:FE:42:42" } },
    });
    expect(exitCode).toBe(0);
    expect(json).toEqual({
      cniVersion: "1.1.0",
      interfaces: [
        {
          name: "net1",
          mac: "ca:fe:ca:fe:42:42",
          sandbox: "/var/run/netns/x",
          mtu: 9000,
          socketPath: "/var/run/vhostuser/sockets/net1/vhost.sock",
        },
      ],
    });
    const [port] = dataplane.ports.values();
    const [allocation] = records.allocations.list();
    expect(port).toMatchObject({
      name: portNamed("net1"),
      bridge: "br0",
      mtu: 9000,
      socketPath: `${top}/run/${allocation?.id}/net1/vhost.sock`,
      owner: {
        node: "n1",
        podNamespace: "ns",
        podName: "pod",
        podUid: "u-1",
        containerId: "c1",
        network: "net",
      },
    });
    expect(existsSync(`${top}/run/${allocation?.id}/net1`)).toBe(true);
  });

  it("publishes the path that the pod sees", async () => {
    await allocate([DEVICE]);
    const file = join(top, "devinfo/cni/ns-net-c1_net1");
    await call("ADD", { config: { runtimeConfig: { CNIDeviceInfoFile: file } } });
    expect(JSON.parse(await readFile(file, "utf8"))).toEqual({
      type: "vhost-user",
      version: "1.1.0",
      "vhost-user": { mode: "server", path: "/var/run/vhostuser/sockets/net1/vhost.sock" },
    });
  });

  it("of a new sandbox removes the device-info of the old one, whose DEL may never come", async () => {
    const file = (container: string) => join(top, "devinfo/cni", container);
    const add = (container: string) =>
      call("ADD", { container, config: { runtimeConfig: { CNIDeviceInfoFile: file(container) } } });
    await allocate([DEVICE]);
    await add("old");
    expect((await add("new")).exitCode).toBe(0);
    expect(await readdir(join(top, "devinfo/cni"))).toEqual(["new"]);
  });

  it.each(["0.3.0", "0.3.1", "0.4.0", "1.0.0"])(
    "leaves keys of 1.1.0 out of a %s result",
    async (cniVersion) => {
      await allocate([DEVICE]);
      const { json } = await call("ADD", { config: { cniVersion, mtu: 1400, mac: "02:00:00:00:00:09" } });
      expect(json).toEqual({
        cniVersion,
        interfaces: [{ name: "net1", mac: "02:00:00:00:00:09", sandbox: "/var/run/netns/x" }],
      });
    },
  );

  it("uses the MAC of runtimeConfig, then CNI_ARGS, then args.cni, then the network, else derives a stable one", async () => {
    await allocate([DEVICE]);
    const mac = async (config: object, args = "") => {
      const { json } = await call("ADD", {
        config,
        env: { CNI_ARGS: `K8S_POD_NAMESPACE=ns;K8S_POD_NAME=pod${args}` },
      });
      await call("DEL");
      return (json as { interfaces?: { mac: string }[] } | undefined)?.interfaces?.[0]?.mac;
    };
    const all = { mac: "02:00:00:00:00:04", args: { cni: { mac: "02:00:00:00:00:03" } } };
    expect(await mac({ ...all, runtimeConfig: { mac: "02:00:00:00:00:01" } }, ";MAC=02:00:00:00:00:02")).toBe(
      "02:00:00:00:00:01",
    );
    expect(await mac(all, ";MAC=02:00:00:00:00:02")).toBe("02:00:00:00:00:02");
    expect(await mac(all)).toBe("02:00:00:00:00:03");
    expect(await mac({ mac: "02:00:00:00:00:04" })).toBe("02:00:00:00:00:04");
    const derived = await mac({});
    expect(derived, "by the pod's name").not.toBe(await mac({}, "x"));
    expect(derived).toMatch(/^[0-9a-f][26ae]:/);
    expect(await mac({})).toBe(derived);
  });

  it("repeated answers the same and leaves one port", async () => {
    await allocate([DEVICE]);
    const first = await call("ADD");
    const created = records.ports.list()[0]?.createdAt;
    expect(await call("ADD")).toEqual(first);
    await openDaemonState();
    expect(await call("ADD")).toEqual(first);
    expect(dataplane.ports.size).toBe(1);
    expect(records.ports.list()[0]?.createdAt).toBe(created);
  });

  it("repairs a port that was lost meanwhile", async () => {
    await allocate([DEVICE]);
    await call("ADD");
    dataplane.ports.clear();
    expect((await call("ADD")).exitCode).toBe(0);
    expect(dataplane.ports.size).toBe(1);
  });

  it("with another device for the same interface is a conflict and changes nothing", async () => {
    await allocate([DEVICE]);
    await allocate(["sockets-00002"]);
    await call("ADD");
    const before = [...dataplane.ports.values()];
    const { json } = await call("ADD", { config: { deviceID: "sockets-00002" } });
    expect(json).toMatchObject({ code: 102 });
    expect([...dataplane.ports.values()]).toEqual(before);
  });

  it("of a new sandbox takes over the port without recreating it, and the old one's late DEL changes nothing", async () => {
    await allocate([DEVICE]);
    await call("ADD", { container: "old" });
    const calls: string[] = [];
    const remove = dataplane.removePort.bind(dataplane);
    dataplane.removePort = (name, signal) => {
      calls.push(name);
      return remove(name, signal);
    };
    expect((await call("ADD", { container: "new" })).exitCode).toBe(0);
    expect(records.ports.list()).toMatchObject([{ containerId: "new", state: "attached" }]);
    expect((await call("DEL", { container: "old" })).exitCode).toBe(0);
    expect(calls).toEqual([]);
    expect(sandboxes()).toEqual(["new"]);
    expect((await call("DEL", { container: "new" })).exitCode).toBe(0);
    expect([...dataplane.ports.keys(), ...records.ports.list()]).toEqual([]);
  });

  it("of an older sandbox that ends after the newer one's leaves the newer one's port alone", async () => {
    await allocate([DEVICE]);
    const { holders } = context;
    const kubelet = Promise.withResolvers<void>();
    const slow = { ...holders, holds: () => kubelet.promise.then(() => true) };
    context = { ...context, holders: slow };
    const old = call("ADD", { container: "old" });
    context = { ...context, holders };
    expect((await call("ADD", { container: "new" })).exitCode).toBe(0);
    kubelet.resolve();
    expect((await old).json).toMatchObject({ code: 11, msg: expect.stringMatching(/newer sandbox/) });
    expect(sandboxes()).toEqual(["new"]);
    expect(records.ports.list()).toMatchObject([{ containerId: "new", state: "attached" }]);
    expect((await call("ADD", { container: "newest" })).exitCode).toBe(0);
    expect(sandboxes()).toEqual(["newest"]);
  });

  it.each(["the same", "a restarted"])(
    "of an older sandbox that reaches %s daemon after the newer one's is superseded",
    async (daemon) => {
      await allocate([DEVICE]);
      const startedAtMs = monotonicMs();
      expect((await call("ADD", { container: "new" })).exitCode).toBe(0);
      if (daemon === "a restarted") await openDaemonState();
      const late = await call("ADD", { container: "old", startedAtMs });
      expect(late.json).toMatchObject({ code: 11, msg: expect.stringMatching(/newer sandbox/) });
      expect(sandboxes()).toEqual(["new"]);
    },
  );

  it("of an older sandbox makes nothing after the newer one was detached", async () => {
    await allocate([DEVICE]);
    const startedAtMs = monotonicMs();
    await call("ADD", { container: "new" });
    await call("DEL", { container: "new" });
    const late = await call("ADD", { container: "old", startedAtMs });
    expect(late.json).toMatchObject({ code: 11, msg: expect.stringMatching(/newer sandbox/) });
    expect([...dataplane.ports.keys(), ...records.ports.list()]).toEqual([]);
  });

  it.each(["before", "after"])(
    "of a sandbox made after a reboot adopts the port, though the clock began again, when it comes %s the DEL of the old one",
    async (order) => {
      await allocate([DEVICE]);
      const startedAtMs = monotonicMs();
      await call("ADD", { container: "old", startedAtMs });
      await openDaemonState("another boot");
      if (order === "after") expect((await call("DEL", { container: "old" })).exitCode).toBe(0);
      expect((await call("ADD", { container: "new", startedAtMs: 5 })).exitCode).toBe(0);
      if (order === "before") expect((await call("DEL", { container: "old" })).exitCode).toBe(0);
      expect(sandboxes()).toEqual(["new"]);
    },
  );

  it("that fails for a new sandbox leaves neither port nor record, and the next one succeeds", async () => {
    await allocate([DEVICE]);
    await call("ADD", { container: "old" });
    dataplane.portError = "no more queues";
    expect((await call("ADD", { container: "new" })).json).toMatchObject({ code: 105 });
    expect([...dataplane.ports.keys(), ...records.ports.list()]).toEqual([]);
    dataplane.portError = undefined;
    expect((await call("ADD", { container: "newest" })).exitCode).toBe(0);
    expect(sandboxes()).toEqual(["newest"]);
  });

  it("twice at once gets the same answer, whichever began first", async () => {
    await allocate([DEVICE]);
    const startedAtMs = monotonicMs();
    const first = await call("ADD");
    expect(await call("ADD", { startedAtMs })).toEqual(first);
    expect(first.exitCode).toBe(0);
  });

  it("that comes after the DEL of its sandbox makes nothing", async () => {
    await allocate([DEVICE]);
    const startedAtMs = monotonicMs();
    await call("DEL");
    const late = await call("ADD", { startedAtMs });
    expect(late.json).toMatchObject({ code: 11, msg: expect.stringMatching(/was detached/) });
    expect(records.ports.list()).toEqual([]);
    expect((await call("ADD")).exitCode).toBe(0);
  });

  it("without a device id uses one that kubelet says the pod holds, another for each interface", async () => {
    held = ["sockets-00003", "sockets-00002"];
    await allocate(held);
    const config = { deviceID: undefined };
    expect((await call("ADD", { config })).exitCode).toBe(0);
    expect((await call("ADD", { config, ifname: "net2" })).exitCode).toBe(0);
    expect(records.ports.list().map(({ device }) => device)).toEqual(["sockets-00002", "sockets-00003"]);
    expect((await call("ADD", { config })).exitCode).toBe(0);
    const third = await call("ADD", { config, ifname: "net3" });
    expect(third.json).toMatchObject({ code: 101, msg: expect.stringMatching(/holds no free one/) });
  });

  it.each([
    ["a missing bridge", { bridge: "br9" }, 104, /no bridge br9/],
    ["a device that no pod holds", { deviceID: "sockets-00099" }, 101, /does not hold device sockets-00099/],
    ["a foreign device id", { deviceID: "0000:03:00.1" }, 7, /not one of kube-vhostuser/],
    ["a bad MAC", { mac: "01:00:00:00:00:01" }, 7, /not a unicast address/],
    ["a bad MTU", { mtu: 67 }, 7, /mtu/],
    ["an unknown CNI version", { cniVersion: "9.9.9" }, 1, /cniVersion "9.9.9"/],
    [
      "a device-info file elsewhere",
      { runtimeConfig: { CNIDeviceInfoFile: "/etc/cron.d/x" } },
      4,
      /is not a name of at most 255 bytes directly in/,
    ],
    [
      "a device-info file that climbs out",
      { runtimeConfig: { CNIDeviceInfoFile: "/devinfo/cni/../../x" } },
      4,
      /is not a name of at most 255 bytes directly in/,
    ],
    [
      "a device-info file that nothing could write",
      { runtimeConfig: { CNIDeviceInfoFile: `/devinfo/cni/${"n".repeat(256)}` } },
      4,
      /is not a name of at most 255 bytes directly in/,
    ],
  ])("refuses %s and leaves nothing", async (_name, config, code, message) => {
    await allocate([DEVICE]);
    const { exitCode, json } = await call("ADD", { config });
    expect(exitCode).toBe(1);
    expect(json).toMatchObject({ code, msg: expect.stringMatching(message) });
    expect(dataplane.ports.size).toBe(0);
    expect(records.ports.list()).toEqual([]);
  });

  it.each([
    ["CNI_CONTAINERID", "../x"],
    ["CNI_CONTAINERID", ""],
    ["CNI_IFNAME", "a/b"],
    ["CNI_IFNAME", "interface-name-too-long"],
    ["CNI_IFNAME", "net\u202e1"],
    ["CNI_IFNAME", "net\u00071"],
    ["CNI_NETNS", ""],
  ])("refuses %s=%j", async (name, value) => {
    await allocate([DEVICE]);
    const { json } = await call("ADD", { env: { [name]: value } });
    expect(json).toMatchObject({ code: 4 });
    expect(JSON.stringify(json)).toContain(name);
  });

  it("refuses a prevResult that is nested too deep to be printed again, before anything is made", async () => {
    await allocate([DEVICE]);
    const stdin = `{"cniVersion":"1.1.0","name":"net","type":"kube-vhostuser","deviceID":"${DEVICE}","prevResult":`;
    const { failure } = await answer(
      {
        ...{ startedAtMs: monotonicMs(), delegate },
        env: {
          ...{ CNI_COMMAND: "ADD", CNI_CONTAINERID: "c1", CNI_IFNAME: "net1", CNI_NETNS: "/n" },
          CNI_ARGS: "K8S_POD_NAMESPACE=ns;K8S_POD_NAME=pod",
        },
        stdin: Buffer.from(`${stdin}${'{"a":'.repeat(20_000)}1${"}".repeat(20_000)}}`),
      },
      context,
      AbortSignal.timeout(30_000),
    );
    expect(failure?.code).toBe("invalid-network-config");
    expect([...dataplane.ports.keys(), ...records.ports.list()]).toEqual([]);
  });

  it("removes a port again that the switch reports an error for, with the switch's message", async () => {
    await allocate([DEVICE]);
    dataplane.portError = "could not open network device";
    const { json } = await call("ADD");
    expect(json).toMatchObject({ code: 105, msg: "vhostuser port-failed: could not open network device" });
    expect(records.ports.list()).toEqual([]);
  });

  it("may be tried again when the switch is away", async () => {
    await allocate([DEVICE]);
    dataplane.dead = true;
    expect((await call("ADD")).json).toMatchObject({ code: 11 });
    dataplane.dead = false;
    expect((await call("ADD")).exitCode).toBe(0);
  });
});

describe("ADD with a device of another pod", () => {
  it("is refused although Multus passed it, and the other pod keeps its port", async () => {
    await allocate([DEVICE]);
    await call("ADD", { container: "victim" });
    const before = [...dataplane.ports.values()];
    held = ["sockets-00002"];
    const { json } = await call("ADD", {
      container: "evil",
      config: { runtimeConfig: { deviceID: DEVICE } },
      env: { CNI_ARGS: "K8S_POD_NAMESPACE=ns;K8S_POD_NAME=evil" },
    });
    expect(json).toMatchObject({
      code: 101,
      msg: expect.stringMatching(/does not hold device sockets-00001/),
    });
    expect([...dataplane.ports.values()]).toEqual(before);
  });

  it("is refused even where kubelet says it is held, while the other pod's interface stands", async () => {
    await allocate([DEVICE]);
    await call("ADD", { container: "victim" });
    const before = [...dataplane.ports.values()];
    for (const ifname of ["net1", "net2"]) {
      const env = { CNI_ARGS: "K8S_POD_NAMESPACE=ns;K8S_POD_NAME=evil" };
      expect((await call("ADD", { container: "evil", ifname, env })).json).toMatchObject({ code: 102 });
    }
    expect([...dataplane.ports.values()]).toEqual(before);
  });

  it("is refused while the record of the device's allocation cannot be read", async () => {
    await allocate([DEVICE]);
    await changeEntries(join(top, "records/allocations"), (line) => line.replace("createdAt", "created"));
    await openDaemonState();
    await openDaemonState();
    const { json } = await call("ADD");
    expect(json).toMatchObject({ code: 110, msg: expect.stringMatching(/record .* cannot be read/) });
  });
});

describe("DEL", () => {
  it("succeeds any number of times, for an unknown interface and without a configuration", async () => {
    await allocate([DEVICE]);
    await call("ADD");
    const env = { CNI_NETNS: "", CNI_ARGS: "" };
    for (let time = 0; time < 3; time++) {
      expect(await call("DEL", { env })).toEqual({ exitCode: 0, json: undefined });
    }
    expect(await call("DEL", { container: "x", env })).toEqual({ exitCode: 0, json: undefined });
    const garbage = await answer(
      {
        startedAtMs: monotonicMs(),
        delegate,
        env: { CNI_COMMAND: "DEL", CNI_CONTAINERID: "c1", CNI_IFNAME: "net1" },
        stdin: Buffer.from("{{{"),
      },
      context,
      AbortSignal.timeout(30_000),
    );
    expect(garbage).toEqual({ exitCode: 0, stdout: "", ignoredKeys: [] });
    expect(dataplane.ports.size).toBe(0);
  });

  it("of net1 leaves net10 alone", async () => {
    await allocate([DEVICE, "sockets-00002"]);
    await call("ADD", { ifname: "net1" });
    await call("ADD", { ifname: "net10", config: { deviceID: "sockets-00002" } });
    await call("DEL", { ifname: "net1" });
    expect([...dataplane.ports.keys()]).toEqual([portNamed("net10")]);
  });

  it("with a dead switch succeeds and remembers what is left", async () => {
    await allocate([DEVICE]);
    await call("ADD");
    dataplane.dead = true;
    expect((await call("DEL")).exitCode).toBe(0);
    await openDaemonState();
    expect(records.ports.list()).toMatchObject([{ state: "detaching", portName: portNamed("net1") }]);
  });

  it("removes the port though the records cannot be written", async () => {
    await allocate([DEVICE]);
    await call("ADD");
    const file = await open("/dev/null");
    await file.close();
    using _ = vi
      .spyOn(Object.getPrototypeOf(file) as typeof file, "datasync")
      .mockRejectedValue(new Error("no space left on device"));
    records.ports.remove = () => Promise.reject(new Error("no space left on device"));
    expect((await call("DEL")).exitCode).toBe(0);
    expect(dataplane.ports.size).toBe(0);
    expect(records.ports.list()).toMatchObject([{ state: "detaching" }]);
  });

  it("without a record succeeds and leaves the port to the reconciler, which finds it by its mark", async () => {
    await allocate([DEVICE]);
    await call("ADD");
    await rm(join(top, "records/ports"), { recursive: true });
    await openDaemonState();
    expect((await call("DEL")).exitCode).toBe(0);
    expect(sandboxes()).toEqual(["c1"]);
  });
});

describe("a request whose interface is busy with one that hangs", () => {
  const late = AbortSignal.abort(new Error("time is up"));
  const states = () => records.ports.list().map(({ interfaceName, state }) => `${interfaceName} ${state}`);
  const reconcile = async () => {
    const scope = {
      ...{ ...context, context: context.node, places: context.node.config, observer: unobserved },
      stop: new AbortController().signal,
    };
    for (const record of records.ports.list()) await repairPort(scope, record).catch(() => undefined);
  };

  /** Starts an ADD and waits until the switch has it. */
  async function hangingAdd(options: Call = {}) {
    const { promise, resolve } = Promise.withResolvers<void>();
    const asked = dataplane.nextCall();
    dataplane.hang = promise;
    const adding = call("ADD", options);
    await asked;
    return {
      adding,
      goOn: () => {
        dataplane.hang = undefined;
        resolve();
      },
    };
  }

  it.each(["ADD", "CHECK"])("%s says in time which one it is, and may be tried again", async (verb) => {
    await allocate([DEVICE]);
    const { adding, goOn } = await hangingAdd();
    const { exitCode, json } = await call(verb, { signal: late });
    expect(exitCode).toBe(1);
    expect(json).toMatchObject({
      code: 11,
      msg: expect.stringContaining("ADD of interface net1 is still running"),
      details: expect.stringContaining("interface net1 of allocation"),
    });
    goOn();
    expect((await adding).exitCode).toBe(0);
    expect(states()).toEqual(["net1 attached"]);
  });

  it("does not hold up another container, nor another interface", async () => {
    await allocate([DEVICE]);
    const { adding, goOn } = await hangingAdd();
    expect((await call("DEL", { container: "c2", signal: late })).exitCode).toBe(0);
    expect((await call("DEL", { ifname: "net2", signal: late })).exitCode).toBe(0);
    goOn();
    expect((await adding).exitCode).toBe(0);
  });

  it("GC names it, and leaves the attachment as it is", async () => {
    await allocate([DEVICE]);
    await call("ADD");
    const { adding, goOn } = await hangingAdd();
    const { json } = await call("GC", { config: { "cni.dev/valid-attachments": [] }, signal: late });
    expect(json).toMatchObject({ code: 11, msg: expect.stringContaining("ADD of interface net1") });
    goOn();
    expect((await adding).exitCode).toBe(0);
    expect(states()).toEqual(["net1 attached"]);
  });

  it("GC leaves what was attached again while it waited", async () => {
    await allocate([DEVICE]);
    await call("ADD");
    const goOn = Promise.withResolvers<void>();
    const [attached] = records.ports.list();
    if (attached === undefined) throw new Error("nothing is attached");
    const lock = { key: portKey(attached), what: "DEL and ADD" };
    const holding = context.locks.run(lock, async () => {
      await goOn.promise;
      await records.ports.put({ ...attached, startedAtMs: monotonicMs() });
    });
    const collecting = call("GC", { config: { "cni.dev/valid-attachments": [] } });
    goOn.resolve();
    await holding;
    expect((await collecting).exitCode).toBe(0);
    expect(states()).toEqual(["net1 attached"]);
    expect(dataplane.ports.size).toBe(1);
  });

  it("DEL succeeds, and the ADD that it could not wait for makes nothing where it had not begun", async () => {
    await allocate([DEVICE]);
    const { holders } = context;
    const kubelet = Promise.withResolvers<boolean>();
    context = { ...context, holders: { ...holders, holds: () => kubelet.promise } };
    const adding = call("ADD");
    expect(await call("DEL", { signal: late })).toEqual({ exitCode: 0, json: undefined });
    kubelet.resolve(true);
    expect((await adding).json).toMatchObject({
      code: 11,
      msg: expect.stringContaining("was detached while"),
    });
    expect(states()).toEqual([]);
    expect(dataplane.ports.size).toBe(0);
    expect((await call("ADD")).exitCode).toBe(0);
  });

  it("DEL succeeds while the record of the ADD is being written, and that removes what it made", async () => {
    await allocate([DEVICE]);
    const put = records.ports.put.bind(records.ports);
    vi.spyOn(records.ports, "put").mockImplementationOnce(async (record) => {
      const written = put(record);
      expect((await call("DEL")).exitCode).toBe(0);
      await written;
    });
    expect((await call("ADD")).json).toMatchObject({
      code: 11,
      msg: expect.stringContaining("was detached while"),
    });
    expect(states()).toEqual([]);
    expect(dataplane.ports.size).toBe(0);
  });

  it("DEL succeeds, and the ADD that it could not wait for removes what it made", async () => {
    await allocate([DEVICE]);
    const { adding, goOn } = await hangingAdd();
    expect(await call("DEL", { signal: late })).toEqual({ exitCode: 0, json: undefined });
    expect(states()).toEqual(["net1 detaching"]);
    goOn();
    const { exitCode, json } = await adding;
    expect(exitCode).toBe(1);
    expect(json).toMatchObject({ code: 11, msg: expect.stringContaining("was detached while its ADD") });
    expect(dataplane.ports.size).toBe(0);
    expect(states()).toEqual([]);
  });

  it("DEL of a sandbox leaves the port alone that a newer one got while it waited", async () => {
    await allocate([DEVICE]);
    await call("ADD", { container: "old" });
    const [attached] = records.ports.list();
    if (attached === undefined) throw new Error("nothing is attached");
    const goOn = Promise.withResolvers<void>();
    const holding = context.locks.run({ key: portKey(attached), what: "ADD" }, () => goOn.promise);
    const limit = new AbortController();
    const deleting = call("DEL", { container: "old", signal: limit.signal });
    await records.ports.put({ ...attached, containerId: "new" });
    limit.abort(new Error("time is up"));
    expect((await deleting).exitCode).toBe(0);
    expect(states()).toEqual(["net1 attached"]);
    goOn.resolve();
    await holding;
  });

  it("DEL of an attached interface is remembered over a restart, and the reconciler removes the port", async () => {
    await allocate([DEVICE]);
    await call("ADD");
    const { adding, goOn } = await hangingAdd();
    expect((await call("DEL", { signal: late })).exitCode).toBe(0);
    goOn();
    expect((await adding).json).toMatchObject({ code: 11 });
    await openDaemonState();
    expect(states()).toEqual(["net1 detaching"]);
    await reconcile();
    expect(dataplane.ports.size).toBe(0);
    expect(states()).toEqual([]);
  });

  it("DEL of one interface leaves the ADD of another one alone", async () => {
    await allocate([DEVICE, "sockets-00002"]);
    const { adding, goOn } = await hangingAdd();
    const other = { ifname: "net2", config: { deviceID: "sockets-00002" } };
    const second = call("ADD", other);
    expect((await call("DEL", { ...other, signal: late })).exitCode).toBe(0);
    goOn();
    expect((await adding).exitCode).toBe(0);
    expect((await second).json).toMatchObject({ code: 11 });
    await reconcile();
    expect(states()).toEqual(["net1 attached"]);
    expect([...dataplane.ports.keys()]).toEqual([portNamed("net1")]);
  });

  it("DEL that gave up does not affect an ADD that came after it", async () => {
    await allocate([DEVICE]);
    await call("ADD");
    const { adding, goOn } = await hangingAdd();
    const deleting = call("DEL", { signal: late });
    const again = call("ADD");
    expect((await deleting).exitCode).toBe(0);
    goOn();
    expect((await adding).exitCode).toBe(1);
    expect((await again).exitCode).toBe(0);
    expect(states()).toEqual(["net1 attached"]);
    await reconcile();
    expect(dataplane.ports.size).toBe(1);
  });
});

describe("CHECK", () => {
  const prevResult = async () => ({ prevResult: (await call("ADD")).json });

  it("finds nothing wrong with what ADD made", async () => {
    await allocate([DEVICE]);
    expect(await call("CHECK", { config: await prevResult() })).toEqual({ exitCode: 0, json: undefined });
  });

  it("says what is missing, all of it", async () => {
    await allocate([DEVICE]);
    const config = await prevResult();
    dataplane.ports.clear();
    await rm(join(top, "run", records.allocations.list()[0]?.id ?? "", "net1"), { recursive: true });
    const { json } = await call("CHECK", { config });
    expect(json).toMatchObject({ code: 106 });
    expect(json?.["msg"]).toMatch(/the directory .* is gone; port .* is gone/);
  });

  it("fails for the prevResult of another attachment", async () => {
    await allocate([DEVICE]);
    await call("ADD");
    const other = { interfaces: [{ name: "net1", sandbox: "/var/run/netns/x", mac: "02:00:00:00:00:77" }] };
    expect((await call("CHECK", { config: { prevResult: other } })).json).toMatchObject({ code: 106 });
    expect((await call("CHECK")).json).toMatchObject({ code: 106 });
    expect((await call("CHECK", { container: "x" })).json).toMatchObject({ code: 106 });
  });
});

describe("other verbs", () => {
  it("VERSION lists what is supported", async () => {
    expect((await call("VERSION", { config: { cniVersion: "0.4.0" } })).json).toEqual({
      cniVersion: "0.4.0",
      supportedVersions: ["0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"],
    });
  });

  it("STATUS says whether the switch answers", async () => {
    expect((await call("STATUS")).exitCode).toBe(0);
    dataplane.dead = true;
    expect((await call("STATUS")).json).toMatchObject({ code: 50 });
  });

  it("GC leaves what was attached after it was called", async () => {
    await allocate([DEVICE]);
    const startedAtMs = monotonicMs();
    await call("ADD");
    const config = { "cni.dev/valid-attachments": [] };
    expect((await call("GC", { config, startedAtMs })).exitCode).toBe(0);
    expect(records.ports.list()).toHaveLength(1);
    expect((await call("GC", { config })).exitCode).toBe(0);
    expect(records.ports.list()).toEqual([]);
  });

  it("GC removes what was attached before a reboot, although the clock started at 0 again", async () => {
    await allocate([DEVICE]);
    await call("ADD");
    await openDaemonState("another boot");
    expect((await call("GC", { config: { "cni.dev/valid-attachments": [] }, startedAtMs: 5 })).exitCode).toBe(
      0,
    );
    expect(records.ports.list()).toEqual([]);
  });

  it("GC removes what the runtime does not name, of this network only, and nothing without a list", async () => {
    await allocate([DEVICE, "sockets-00002", "sockets-00003"]);
    await call("ADD", { ifname: "keep" });
    await call("ADD", { ifname: "drop", config: { deviceID: "sockets-00002" } });
    await call("ADD", { ifname: "other", config: { deviceID: "sockets-00003", name: "another" } });
    await call("GC");
    expect(dataplane.ports.size).toBe(3);
    const valid = [{ containerID: "c1", ifname: "keep" }];
    expect((await call("GC", { config: { "cni.dev/valid-attachments": valid } })).exitCode).toBe(0);
    expect(records.ports.list().map(({ interfaceName }) => interfaceName)).toEqual(["keep", "other"]);
  });

  it("an unknown one is refused by name", async () => {
    expect((await call("FROB")).json).toMatchObject({ code: 4, msg: expect.stringMatching(/"FROB"/) });
  });
});
