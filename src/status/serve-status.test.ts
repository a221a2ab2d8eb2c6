import { mkdir, mkdtemp, rm, stat, symlink, writeFile } from "node:fs/promises";
import { get } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { MemoryDataplane } from "../../test/stand-in/dataplane/memory-dataplane.ts";
import { exampleClaim } from "../../test/stand-in/records/example-claim.ts";
import { parseConfig } from "../config/load.ts";
import type { PodDevices } from "../kubelet/pod-resources.ts";
import { silentLogger } from "../logging/logger.ts";
import { hashedPodInterfaceName } from "../names/interface-name.ts";
import type { HttpServer } from "../observe/http-server.ts";
import { Pools } from "../pools/pools.ts";
import type { AllocationRecord } from "../records/allocation-record.ts";
import { type PortRecord, portKey } from "../records/port-record.ts";
import { openRecords, type Records } from "../records/records.ts";
import { systemClock } from "../sync/clock.ts";
import { serveStatus, stringifyInChunks } from "./serve-status.ts";
import { nodeStatusShape, traceShape } from "./shape.ts";

const ID = "0123456789abcdef";
const SECRET = "not-for-everyone";

let directory: string;
let socketPath: string;
let records: Records;
let dataplane: MemoryDataplane;
let server: HttpServer;
let listPods: () => Promise<readonly PodDevices[]>;
/** What happens between two reads. */
let meanwhile: () => Promise<void>;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "kvu-status-"));
  socketPath = join(directory, "run", "status.sock");
  const root = join(directory, "root");
  await mkdir(root);
  records = await openRecords(join(directory, "records"));
  dataplane = new MemoryDataplane();
  listPods = async () => [];
  meanwhile = async () => undefined;
  const sockets = { capacity: 2, dataplane: { type: "ovs-dpdk", bridge: "br0" } };
  const config = parseConfig(JSON.stringify({ node: "n", root, pools: { sockets } }), "test");
  server = await serveStatus({
    socketPath,
    logger: silentLogger,
    source: {
      context: {
        config,
        records,
        pools: new Pools({
          pools: config.pools,
          allocations: records.allocations,
          open: () => dataplane,
          logger: silentLogger,
        }),
      },
      view: {
        pools: () => [
          { name: "sockets", devices: [{ healthy: true }, { healthy: false }], healthy: true, claimPorts: 0 },
        ],
        plugins: () => [{ resource: "vhostuser/sockets", registered: true, registrations: 2 }],
        socketsOpened: () => 1,
        rootProblem: async () => undefined,
      },
      counts: async () => ({ repairs: [], errors: [], lastPassAt: undefined }),
      listPods: () => listPods(),
      version: "1.2.3",
      startedAt: 0,
      clock: { ...systemClock, sleep: () => meanwhile() },
    },
  });
});
afterEach(async () => {
  await server.close();
  await rm(directory, { recursive: true });
});

function ask(path: string): Promise<{ status: number; body: string }> {
  return new Promise((resolve, reject) => {
    get({ socketPath, path, agent: false }, (response) => {
      let body = "";
      response.on("data", (chunk) => {
        body += chunk;
      });
      response.on("end", () => resolve({ status: response.statusCode ?? 0, body }));
    }).on("error", reject);
  });
}
const node = async () => nodeStatusShape.parse(JSON.parse((await ask("/v1/node")).body));

async function attach(): Promise<void> {
  const ownership = { owner: 107, group: 107, mode: 0o2770 };
  const common = { pool: "sockets", createdAt: 5 };
  const allocation: AllocationRecord = {
    ...{ id: ID, ownership, sequence: 1 },
    holder: { kind: "device-plugin", resource: "vhostuser/sockets", devices: ["sockets-00000"] },
    ...common,
  };
  await records.allocations.put(allocation);
  const port: PortRecord = {
    ...{ containerId: "c1", interfaceName: "net1", state: "attached", allocationId: ID },
    ...{ device: "sockets-00000", portName: "vhu1", bridge: "br0", mac: "02:00:00:00:00:01" },
    ...{ switchSocketPath: "/s", podSocketPath: "/p", network: "fast", netns: "/n" },
    ...{ podNamespace: "shop", podName: "web", podUid: "u1" },
    settings: { externalIds: { token: SECRET } },
    lease: { containerId: "c1", type: "host-local", request: { stdin: SECRET, env: {} } },
    ...{ startedAtMs: 1, bootId: "boot", releases: [] },
    ...common,
  };
  await records.ports.put(port);
}

describe("the status of a node", () => {
  it("is served to its owner alone, from a socket that replaces a dead one", async () => {
    expect((await stat(socketPath)).mode & 0o777).toBe(0o600);
    await server.close();
    await expect(ask("/v1/node")).rejects.toThrow("ECONNREFUSED");
  });

  it("has pools, records and paths, and not what only some readers may see", async () => {
    await attach();
    const { body } = await ask("/v1/node");
    expect(body).not.toContain(SECRET);
    const status = nodeStatusShape.parse(JSON.parse(body));
    expect(status).toMatchObject({
      node: "n",
      version: "1.2.3",
      pools: [
        { name: "sockets", devices: 2, healthy: 1, inUse: 0, registered: true, switch: { ready: true } },
      ],
      interfaces: [{ name: "net1", places: { directory: { kind: "missing" } } }],
      allocations: [{ id: ID }],
    });
    expect(status.interfaces[0]?.port).toBeUndefined();
    const trace = await ask("/v1/trace?pod=web&namespace=shop");
    expect(trace.body).not.toContain(SECRET);
  });

  it("has what a VM's owner knows a NIC by: name, VLAN and addresses", async () => {
    await attach();
    const [port] = records.ports.list();
    if (port?.lease === undefined) throw new Error("the example has a lease");
    const given = {
      ips: [{ address: "10.20.0.17/24" }],
      routes: [],
      dns: { nameservers: [], search: [], options: [] },
    };
    const lease = { ...port.lease, given };
    const vlan = { mode: "access" as const, tag: 100, trunks: [], customerVlans: [] };
    const named = async (interfaceName: string) => {
      await records.ports.remove(portKey(port));
      await records.ports.put({ ...port, interfaceName, settings: { vlan }, lease });
      const [one] = (await node()).interfaces;
      await records.ports.remove(portKey({ ...port, interfaceName }));
      return one;
    };
    expect(await named(hashedPodInterfaceName("fast"))).toMatchObject({
      ...{ vmNetwork: "fast", mac: "02:00:00:00:00:01", addresses: ["10.20.0.17/24"] },
      vlan: { mode: "access", tag: 100 },
    });
    expect(await named(hashedPodInterfaceName("net1"))).toMatchObject({ vmNetwork: "net1" });
    expect((await named(hashedPodInterfaceName("a-name-that-no-node-knows")))?.vmNetwork).toBeUndefined();
  });

  it("shows what a claim holds as the claim's, of a pod that kubelet lists", async () => {
    await records.allocations.put({
      ...{ id: ID, pool: "sockets", createdAt: 5, sequence: 1 },
      ownership: { owner: 107, group: 107, mode: 0o2770 },
      holder: exampleClaim({ index: 1 }),
    });
    listPods = async () => [{ podNamespace: "ns", podName: "p", containers: [] }];
    const claim = { namespace: "ns", name: "c", uid: "u", request: "net" };
    const { interfaces, pools, allocations } = await node();
    expect(interfaces).toMatchObject([{ state: "allocated", device: "net.1", pod: { name: "p" }, claim }]);
    expect([pools[0]?.inUse, pools[0]?.claims, allocations[0]?.claim]).toEqual([0, 1, claim]);
    const [traced] = traceShape.parse(JSON.parse((await ask("/v1/trace?pod=p")).body)).interfaces;
    expect(traced).toMatchObject({ holder: "held", claim });
    expect(traced?.deviceInfo).toBeUndefined();
    listPods = async () => [];
    expect((await node()).interfaces).toEqual([]);
  });

  it("counts a device as used while kubelet lists it for a pod, not until it is reclaimed", async () => {
    await attach();
    const inUse = async () => (await node()).pools[0]?.inUse;
    const devices = [{ resource: "vhostuser/sockets", ids: ["sockets-00000"] }];
    listPods = async () => [{ podNamespace: "shop", podName: "web", containers: [{ name: "c", devices }] }];
    expect(await inUse()).toBe(1);
    listPods = async () => [];
    expect(await inUse()).toBe(0);
    listPods = () => Promise.reject(new Error("kubelet is away"));
    expect(await inUse()).toBe(1);
  });

  it("has the devices of pods whose CNI ADD has not come", async () => {
    await attach();
    for (const port of records.ports.list()) await records.ports.remove(portKey(port));
    expect((await node()).interfaces).toEqual([]);
    const devices = [{ resource: "vhostuser/sockets", ids: ["sockets-00000"] }];
    listPods = async () => [{ podNamespace: "shop", podName: "web", containers: [{ name: "c", devices }] }];
    expect((await node()).interfaces).toMatchObject([{ pod: { name: "web" }, state: "allocated" }]);
  });

  it("follows no link that a pod put in the place of its socket or its directory", async () => {
    await attach();
    const allocation = join(directory, "root", ID);
    await mkdir(join(allocation, "net1"), { recursive: true });
    await symlink("/etc/passwd", join(allocation, "net1", "vhost.sock"));
    expect((await node()).interfaces[0]?.places?.socket.kind).toBe("other");
    await rm(join(allocation, "net1"), { recursive: true });
    await symlink("/etc", join(allocation, "net1"));
    expect((await node()).interfaces[0]?.places?.directory.kind).toBe("other");
  });

  it("has leftovers: directories and ports without a record", async () => {
    await mkdir(join(directory, "root", "zzzzzzzzzzzzzzzz"));
    await writeFile(join(directory, "root", "file"), "");
    const owner = { node: "n", podNamespace: "shop", podName: "old" } as never;
    const port = { name: "vhu9", bridge: "br0", socketPath: "/x", owner, link: "down", connected: false };
    dataplane.ports.set("vhu9", port as never);
    expect((await node()).leftovers).toEqual({
      ports: [{ name: "vhu9", bridge: "br0", pod: "shop/old" }],
      directories: ["zzzzzzzzzzzzzzzz"],
      records: [],
    });
  });

  it("does not report what a DEL removes while the node is read", async () => {
    await attach();
    await mkdir(join(directory, "root", ID));
    const inspect = dataplane.inspectPorts.bind(dataplane);
    const port = { name: "vhu1", bridge: "br0", socketPath: "/x", owner: {}, link: "down", connected: false };
    dataplane.ports.set("vhu1", port as never);
    dataplane.inspectPorts = async (signal) => {
      const ports = await inspect(signal);
      for (const one of records.ports.list()) await records.ports.remove(portKey(one));
      await records.allocations.remove(ID);
      return ports;
    };
    expect((await node()).leftovers).toEqual({ ports: [], directories: [], records: [] });
    expect(records.ports.list()).toEqual([]);
    expect((await node()).leftovers).toMatchObject({ ports: [{ name: "vhu1" }], directories: [ID] });
  });

  it("does not report what an Allocate has just begun to make", async () => {
    await mkdir(join(directory, "root", ID));
    meanwhile = attach;
    expect((await node()).leftovers.directories).toEqual([]);
    expect(records.ports.list()).toHaveLength(1);
  });

  it("asks a switch that is not ready for no differences of a trace", async () => {
    await attach();
    let asked = 0;
    dataplane.checkPort = async () => {
      asked += 1;
      return [];
    };
    dataplane.dead = true;
    const trace = async () =>
      traceShape.parse(JSON.parse((await ask("/v1/trace?pod=web")).body)).interfaces[0];
    expect(await trace()).toMatchObject({ switch: { ready: false } });
    dataplane.dead = false;
    expect([asked, (await trace())?.switch, asked]).toEqual([0, { ready: true }, 1]);
  });

  it("is whole while the switch is away, with the reason", async () => {
    await attach();
    dataplane.dead = true;
    const { interfaces, pools } = await node();
    expect(interfaces[0]?.portUnknown).toContain("the switch does not answer");
    expect(pools[0]?.switch).toMatchObject({ ready: false, reason: "the switch does not answer" });
  });

  it("is answered though the switch hangs, after the switch's deadline", async () => {
    await attach();
    dataplane.hang = new Promise(() => undefined);
    expect((await node()).interfaces[0]?.portUnknown).toContain("in time");
  });

  it("reads the switch once for requests at the same time", async () => {
    let reads = 0;
    const inspect = dataplane.inspectPorts.bind(dataplane);
    dataplane.inspectPorts = (signal) => {
      reads += 1;
      return inspect(signal);
    };
    const hold = Promise.withResolvers<void>();
    dataplane.hang = hold.promise;
    const called = dataplane.nextCall();
    const answers = Array.from({ length: 20 }, () => node());
    await called;
    // All requests are in before the switch answers: this one comes after them.
    await ask("/v1/nothing");
    hold.resolve();
    await Promise.all(answers);
    expect(reads).toBe(1);
  });

  it("says in a trace whether kubelet could be read, and why not", async () => {
    await attach();
    const trace = async () =>
      traceShape.parse(JSON.parse((await ask("/v1/trace?pod=web")).body)).interfaces[0];
    expect(await trace()).toMatchObject({ holder: "not-held", deviceInfo: { device: { state: "missing" } } });
    listPods = async () => {
      throw new Error("kubelet is away");
    };
    expect(await trace()).toMatchObject({ holder: "unknown", holderUnknown: "kubelet is away" });
  });

  it.each(["/v1/trace", "/v1/trace?pod=../etc", "/v1/trace?pod=a&namespace=A"])(
    "refuses %s",
    async (path) => {
      expect((await ask(path)).status).toBe(400);
    },
  );

  it("is made into JSON in chunks, and is the same JSON", async () => {
    const value = { a: 1, none: undefined, list: Array.from({ length: 450 }, (_, i) => ({ i })), empty: [] };
    expect(JSON.parse(await stringifyInChunks(value))).toEqual(JSON.parse(JSON.stringify(value)));
  });
});
