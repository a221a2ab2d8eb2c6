import { appendFile, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { MemoryDataplane } from "../../test/stand-in/dataplane/memory-dataplane.ts";
import { type Family, readExposition } from "../../test/stand-in/prometheus/read-exposition.ts";
import { exampleClaim } from "../../test/stand-in/records/example-claim.ts";
import { Failure } from "../failure/failure.ts";
import { silentLogger } from "../logging/logger.ts";
import { openRecords, type Records } from "../records/records.ts";
import type { Clock } from "../sync/clock.ts";
import { systemClock } from "../sync/clock.ts";
import { METRICS } from "./declared-metrics.ts";
import { observeAllocations, observeClaims, observeCni, observePodResources } from "./observed-calls.ts";
import type { ObservedNode } from "./observed-node.ts";
import { type Observer, type ObserverOptions, startObserver as start } from "./observer.ts";

const SIGNAL = new AbortController().signal;
const CLOCK: Clock = { ...systemClock, now: () => 1_700_000_000_000 };

let directory: string;
let records: Records;
let pools: ReturnType<ObservedNode["pools"]>;
let plugins: ReturnType<ObservedNode["plugins"]>;
let root: string;
let rootProblem: string | undefined;
let cleanup: AsyncDisposableStack;

beforeEach(async () => {
  cleanup = new AsyncDisposableStack();
  directory = await mkdtemp(join(tmpdir(), "kvu-observe-"));
  cleanup.defer(() => rm(directory, { recursive: true }));
  records = await openRecords(join(directory, "records"));
  const devices = [{ healthy: true }, { healthy: true }, { healthy: false }];
  pools = [{ name: "sockets", devices, healthy: true, claimPorts: 0 }];
  plugins = [{ resource: "vhostuser/sockets", registered: true, registrations: 2 }];
  root = directory;
  rootProblem = undefined;
});
afterEach(() => cleanup.disposeAsync());

async function startObserver(options: Partial<ObserverOptions> = {}): Promise<Observer> {
  const observer = await start({
    listen: { address: "127.0.0.1", port: 0 },
    node: {
      records,
      recordsDirectory: join(directory, "records"),
      cniSocket: join(directory, "cni.sock"),
      pools: () => pools,
      plugins: () => plugins,
      socketsOpened: () => 3,
      rootProblem: async () => rootProblem,
      events: () => ({ posted: 1, merged: 2, dropped: 3, failed: 4 }),
      get root() {
        return root;
      },
    },
    version: "1.2.3",
    maxReconcilerSilenceMs: 60_000,
    clock: CLOCK,
    logger: silentLogger,
    ...options,
  });
  cleanup.defer(() => observer.close());
  return observer;
}

async function scrape(observer: Observer): Promise<ReadonlyMap<string, Family>> {
  const response = await fetch(`${observer.url}/metrics`);
  expect(response.status).toBe(200);
  expect(response.headers.get("content-type")).toBe("text/plain; version=0.0.4; charset=utf-8");
  return readExposition(await response.text());
}

/** Series of one metric without the buckets of a histogram and without what took how long. */
async function series(observer: Observer, name: string): Promise<Record<string, number>> {
  const family = (await scrape(observer)).get(name);
  if (family === undefined) throw new Error(`no metric ${name}`);
  return Object.fromEntries([...family.series].filter(([key]) => !/^\w+_(bucket|sum)\{/.test(key)));
}

/** The same without what has not happened yet. */
async function happened(observer: Observer, name: string): Promise<Record<string, number>> {
  return Object.fromEntries(Object.entries(await series(observer, name)).filter(([, value]) => value > 0));
}

async function serveCniSocket(): Promise<void> {
  const server = createServer((socket) => socket.resume());
  await new Promise<void>((resolve) => server.listen(join(directory, "cni.sock"), resolve));
  cleanup.defer(() => new Promise<void>((resolve) => server.close(() => resolve())));
}

const ownership = { owner: 107, group: 107, mode: 0o2770 };
const allocation = (letter: string, sequence: number, ...devices: string[]) => ({
  ...{ id: letter.repeat(16), pool: "sockets" },
  holder: { kind: "device-plugin" as const, resource: "vhostuser/sockets", devices },
  ...{ ownership, createdAt: 1, sequence },
});
const port = (interfaceName: string, state: "attached" | "detaching") => ({
  ...{ startedAtMs: 1, bootId: "boot", releases: [] },
  ...{ containerId: "c1", interfaceName, state, allocationId: "a".repeat(16), device: "sockets-00000" },
  ...{
    pool: "sockets",
    portName: `vhu${interfaceName}`,
    bridge: "br0",
    switchSocketPath: "/s",
    podSocketPath: "/p",
  },
  settings: {},
  ...{ mac: "02:00:00:00:00:01", network: "n", netns: "/n", podNamespace: "d", podName: "p", podUid: "u" },
  createdAt: 1,
});
const portRequest = (name: string) => ({
  settings: {},
  ...{ name, bridge: "br0", socketPath: `/${name}` },
  owner: {
    ...{ node: "n", podNamespace: "d", podName: "secret-pod", podUid: "", containerId: "c1" },
    ...{ interfaceName: "net1", network: "n", mac: "02:00:00:00:00:01", allocationId: "a".repeat(16) },
  },
});

describe("/metrics", () => {
  it("shows every declared metric with its help and type, and no other", async () => {
    const families = await scrape(await startObserver());
    expect(Object.fromEntries([...families].map(([name, { type, help }]) => [name, { type, help }]))).toEqual(
      Object.fromEntries(Object.entries(METRICS).map(([name, { type, help }]) => [name, { type, help }])),
    );
  });

  it("names metrics as Prometheus' conventions ask", () => {
    for (const [name, declared] of Object.entries(METRICS)) {
      expect(name).toMatch(/^(vhostuser|process|nodejs)_[a-z_]+$/);
      expect(name.endsWith("_total"), name).toBe(declared.type === "counter");
      expect(declared.labels.filter((label) => /pod$|container|device|port|uid|socket/.test(label))).toEqual(
        [],
      );
      expect("buckets" in declared, name).toBe(declared.type === "histogram");
    }
  });

  it("shows the pools as they are at that moment, and a pool that is gone no more", async () => {
    const observer = await startObserver();
    await records.allocations.put(allocation("a", 1, "sockets-00000", "sockets-00001"));
    await records.allocations.put(allocation("b", 2, "sockets-00001"));
    expect(await series(observer, "vhostuser_pool_devices")).toEqual({
      'vhostuser_pool_devices{pool="sockets"}': 3,
    });
    expect(await series(observer, "vhostuser_pool_devices_healthy")).toEqual({
      'vhostuser_pool_devices_healthy{pool="sockets"}': 2,
    });
    expect(await series(observer, "vhostuser_pool_devices_in_use")).toEqual({
      'vhostuser_pool_devices_in_use{pool="sockets"}': 2,
    });
    pools = [{ name: "other", devices: [], healthy: true, claimPorts: 0 }];
    expect(await series(observer, "vhostuser_pool_devices")).toEqual({
      'vhostuser_pool_devices{pool="other"}': 0,
    });
    expect(await series(observer, "vhostuser_pool_devices_in_use")).toEqual({
      'vhostuser_pool_devices_in_use{pool="other"}': 0,
      'vhostuser_pool_devices_in_use{pool="sockets"}': 2,
    });
  });

  it("shows ports of claims beside devices, of pools that have such ports", async () => {
    const observer = await startObserver();
    pools = [...pools, { name: "claimed", devices: [], healthy: true, claimPorts: 5 }];
    for (const id of ["a", "b"]) {
      const holder = exampleClaim({ uid: id });
      await records.allocations.put({ ...allocation(id, 1), pool: "claimed", holder });
    }
    expect(await series(observer, "vhostuser_pool_claim_ports")).toEqual({
      'vhostuser_pool_claim_ports{pool="claimed"}': 5,
    });
    expect(await series(observer, "vhostuser_pool_claim_ports_in_use")).toEqual({
      'vhostuser_pool_claim_ports_in_use{pool="claimed"}': 2,
    });
    expect(await series(observer, "vhostuser_pool_devices_in_use")).toMatchObject({
      'vhostuser_pool_devices_in_use{pool="claimed"}': 0,
    });
  });

  it("shows recorded ports by state, registrations and unreadable records", async () => {
    await appendFile(join(directory, "records/ports/journal"), "odd\n");
    records = await openRecords(join(directory, "records"));
    const observer = await startObserver();
    await records.ports.put(port("net1", "attached"));
    await records.ports.put(port("net2", "detaching"));
    expect(await series(observer, "vhostuser_ports")).toEqual({
      'vhostuser_ports{pool="sockets",state="attaching"}': 0,
      'vhostuser_ports{pool="sockets",state="attached"}': 1,
      'vhostuser_ports{pool="sockets",state="detaching"}': 1,
      'vhostuser_ports{pool="sockets",state="releasing"}': 0,
    });
    expect(await series(observer, "vhostuser_kubelet_registrations_total")).toEqual({
      'vhostuser_kubelet_registrations_total{resource="vhostuser/sockets"}': 2,
    });
    expect(await series(observer, "vhostuser_kubelet_registered")).toEqual({
      'vhostuser_kubelet_registered{resource="vhostuser/sockets"}': 1,
    });
    expect(await series(observer, "vhostuser_unreadable_records")).toEqual({
      vhostuser_unreadable_records: 1,
    });
  });

  it("counts CNI requests by verb and code; unknown verbs are one series", async () => {
    const observer = await startObserver();
    const missing = new Failure({ code: "bridge-missing", what: "there is no bridge br9" });
    const answers = observeCni(observer.metrics, async ({ env }: { env: Record<string, string> }) =>
      env["CNI_COMMAND"] === "ADD"
        ? { ...{ exitCode: 1 as const, stdout: "{}", ignoredKeys: ["a", "b"] }, failure: missing }
        : { exitCode: 0 as const, stdout: "" },
    );
    for (const CNI_COMMAND of ["ADD", "DEL", "DEL", "x", "y"])
      await answers({ env: { CNI_COMMAND } }, SIGNAL);
    expect(await answers({ env: { CNI_COMMAND: "DEL" } }, SIGNAL)).toEqual({ exitCode: 0, stdout: "" });
    const counted = Object.entries(await series(observer, "vhostuser_cni_requests_total"));
    expect(Object.fromEntries(counted.filter(([, value]) => value > 0))).toEqual({
      'vhostuser_cni_requests_total{verb="ADD",code="bridge-missing"}': 1,
      'vhostuser_cni_requests_total{verb="DEL",code="ok"}': 3,
      'vhostuser_cni_requests_total{verb="other",code="ok"}': 2,
    });
    expect(counted.map(([key]) => key)).toContain('vhostuser_cni_requests_total{verb="GC",code="ok"}');
    expect(await series(observer, "vhostuser_cni_request_duration_seconds")).toEqual({
      'vhostuser_cni_request_duration_seconds_count{verb="ADD",outcome="failed"}': 1,
      'vhostuser_cni_request_duration_seconds_count{verb="DEL",outcome="ok"}': 3,
      'vhostuser_cni_request_duration_seconds_count{verb="other",outcome="ok"}': 2,
    });
    expect(await happened(observer, "vhostuser_errors_total")).toEqual({
      'vhostuser_errors_total{source="cni",code="bridge-missing"}': 1,
    });
    expect(await series(observer, "vhostuser_cni_unknown_keys_total")).toEqual({
      'vhostuser_cni_unknown_keys_total{verb="ADD"}': 2,
      'vhostuser_cni_unknown_keys_total{verb="STATUS"}': 0,
    });
  });

  it("counts allocations and passes answers and errors through", async () => {
    const observer = await startObserver();
    const failure = new Failure({ code: "directory-unsafe", what: "a link" });
    const allocate = observeAllocations(observer.metrics, "sockets", async (devices: readonly string[]) => {
      if (devices.length === 0) throw failure;
      return devices.length;
    });
    expect(await series(observer, "vhostuser_allocations_total")).toEqual({
      'vhostuser_allocations_total{pool="sockets",code="ok"}': 0,
    });
    expect(await series(observer, "vhostuser_allocation_duration_seconds")).toEqual({
      'vhostuser_allocation_duration_seconds_count{pool="sockets",outcome="ok"}': 0,
      'vhostuser_allocation_duration_seconds_count{pool="sockets",outcome="failed"}': 0,
    });
    expect(await allocate(["a", "b"])).toBe(2);
    // A pool that comes back does not forget what was counted for it.
    observeAllocations(observer.metrics, "sockets", allocate);
    await expect(allocate([])).rejects.toBe(failure);
    expect(await series(observer, "vhostuser_allocations_total")).toEqual({
      'vhostuser_allocations_total{pool="sockets",code="ok"}': 1,
      'vhostuser_allocations_total{pool="sockets",code="directory-unsafe"}': 1,
    });
    expect(await series(observer, "vhostuser_allocation_duration_seconds")).toEqual({
      'vhostuser_allocation_duration_seconds_count{pool="sockets",outcome="ok"}': 1,
      'vhostuser_allocation_duration_seconds_count{pool="sockets",outcome="failed"}': 1,
    });
    const prepare = observeClaims(observer.metrics, "prepare", async () => {
      throw failure;
    });
    await expect(prepare()).rejects.toBe(failure);
    expect(await series(observer, "vhostuser_claim_calls_total")).toEqual({
      'vhostuser_claim_calls_total{call="prepare",code="directory-unsafe"}': 1,
    });
    const listPods = observePodResources(observer.metrics, async () => {
      throw new TypeError("a defect");
    });
    await expect(listPods(SIGNAL)).rejects.toThrow("a defect");
    expect(await happened(observer, "vhostuser_errors_total")).toEqual({
      'vhostuser_errors_total{source="allocation",code="directory-unsafe"}': 1,
      'vhostuser_errors_total{source="claim",code="directory-unsafe"}': 1,
      'vhostuser_errors_total{source="pod-resources",code="internal"}': 1,
    });
  });

  it("shows the switch's ports as last listed, and none while it does not answer", async () => {
    const observer = await startObserver();
    const memory = new MemoryDataplane();
    const dataplane = observer.dataplanes.observe(memory);
    await dataplane.ensurePort(portRequest("p1"), SIGNAL);
    const second = await dataplane.ensurePort(portRequest("p2"), SIGNAL);
    memory.ports.set("p2", { ...second, connected: true });
    await dataplane.listPorts(SIGNAL);
    expect(await series(observer, "vhostuser_switch_ports")).toEqual({
      'vhostuser_switch_ports{bridge="br0",state="connected"}': 1,
      'vhostuser_switch_ports{bridge="br0",state="waiting"}': 1,
      'vhostuser_switch_ports{bridge="br0",state="failed"}': 0,
    });
    memory.dead = true;
    await expect(dataplane.listPorts(SIGNAL)).rejects.toThrow("does not answer");
    expect(await dataplane.probe("br0", SIGNAL)).toMatchObject({ ready: false });
    expect(await series(observer, "vhostuser_switch_ports")).toEqual({});
    expect(await series(observer, "vhostuser_dataplane_call_duration_seconds")).toEqual({
      'vhostuser_dataplane_call_duration_seconds_count{call="ensure-port",outcome="ok"}': 2,
      'vhostuser_dataplane_call_duration_seconds_count{call="list-ports",outcome="ok"}': 1,
      'vhostuser_dataplane_call_duration_seconds_count{call="list-ports",outcome="failed"}': 1,
      'vhostuser_dataplane_call_duration_seconds_count{call="probe",outcome="not-ready"}': 1,
    });
    await dataplane.close();
    expect(memory.closed).toBe(true);
  });

  it("counts what the reconciler does", async () => {
    const observer = await startObserver();
    const { reconcile } = observer;
    const firstPassed = reconcile.passBegan();
    reconcile.itemFailed(new Failure({ code: "dataplane-timeout", what: "slow" }));
    reconcile.repaired("orphan-port");
    reconcile.reclaimed("sockets");
    firstPassed();
    const secondPassed = reconcile.passBegan();
    reconcile.stageFailed(new Failure({ code: "kubelet-unavailable", what: "away" }));
    secondPassed();
    reconcile.passBegan()();
    expect(await series(observer, "vhostuser_reconcile_passes_total")).toEqual({
      'vhostuser_reconcile_passes_total{outcome="ok"}': 2,
      'vhostuser_reconcile_passes_total{outcome="failed"}': 1,
    });
    expect(await series(observer, "vhostuser_reconcile_last_ok_timestamp_seconds")).toEqual({
      vhostuser_reconcile_last_ok_timestamp_seconds: 1_700_000_000,
    });
    expect(await series(observer, "vhostuser_reconcile_repairs_total")).toMatchObject({
      'vhostuser_reconcile_repairs_total{kind="orphan-port"}': 1,
      'vhostuser_reconcile_repairs_total{kind="late-del"}': 0,
    });
    expect(await series(observer, "vhostuser_reclaims_total")).toEqual({
      'vhostuser_reclaims_total{pool="sockets"}': 1,
    });
    expect(await happened(observer, "vhostuser_errors_total")).toEqual({
      'vhostuser_errors_total{source="reconcile",code="kubelet-unavailable"}': 1,
      'vhostuser_errors_total{source="reconcile",code="dataplane-timeout"}': 1,
    });
  });

  it("counts guests that were announced, from 0 on", async () => {
    const observer = await startObserver();
    const counts = async () => Object.values(await series(observer, "vhostuser_announcements_total"));
    expect(await counts()).toEqual([0, 0]);
    observer.metrics.count("vhostuser_announcements_total", { outcome: "ok" });
    observer.metrics.count("vhostuser_announcements_total", { outcome: "failed" });
    observer.metrics.count("vhostuser_announcements_total", { outcome: "ok" });
    expect(await counts()).toEqual([2, 1]);
  });

  it("counts ports with a record that could not be settled", async () => {
    const observer = await startObserver();
    await records.ports.put(port("net1", "attached"));
    await records.ports.put(port("net2", "attached"));
    const unsettled = async () => Object.values(await series(observer, "vhostuser_ports_unsettled"));
    expect(await unsettled()).toEqual([0]);
    for (const name of ["vhunet1", "vhunet2", "of-a-pod-that-is-gone"])
      observer.reconcile.portTried(name, false);
    expect(await unsettled()).toEqual([2]);
    observer.reconcile.portTried("vhunet1", true);
    expect(await unsettled()).toEqual([1]);
    observer.reconcile.portTried("vhunet2", true);
    expect(await unsettled()).toEqual([0]);
  });

  it("shows how many attached ports have no running guest, and for how long", async () => {
    const observer = await startObserver();
    const memory = new MemoryDataplane();
    const dataplane = observer.dataplanes.observe(memory);
    const down = () => series(observer, "vhostuser_links_down");
    await records.ports.put(port("net1", "attached"));
    await records.ports.put(port("net2", "attached"));
    await records.ports.put(port("net3", "detaching"));
    expect(await down()).toEqual({});
    for (const name of ["vhunet1", "vhunet2", "vhunet3"])
      memory.ports.set(name, { ...(await dataplane.ensurePort(portRequest(name), SIGNAL)), link: "down" });
    await dataplane.listPorts(SIGNAL);
    expect(await down()).toEqual({ 'vhostuser_links_down{pool="sockets"}': 2 });
    const [longest = 0] = Object.values(await series(observer, "vhostuser_link_down_longest_seconds"));
    expect(longest).toBeGreaterThan(0);
    for (const [name, state] of memory.ports) memory.ports.set(name, { ...state, link: "up" });
    await dataplane.listPorts(SIGNAL);
    expect(await down()).toEqual({ 'vhostuser_links_down{pool="sockets"}': 0 });
    expect(await series(observer, "vhostuser_link_down_longest_seconds")).toEqual({
      'vhostuser_link_down_longest_seconds{pool="sockets"}': 0,
    });
    memory.dead = true;
    await dataplane.listPorts(SIGNAL).catch(() => undefined);
    expect(await down()).toEqual({});
  });

  it("shows what could not be removed, the root and hugepages", async () => {
    const pages = join(directory, "sys/kernel/mm/hugepages");
    for (const [name, total, free] of [
      ["hugepages-2048kB", 512, 3],
      ["hugepages-1048576kB", 4, 0],
    ] as const) {
      await mkdir(join(pages, name), { recursive: true });
      await writeFile(join(pages, name, "nr_hugepages"), `${total}\n`);
      await writeFile(join(pages, name, "free_hugepages"), `${free}\n`);
    }
    const observer = await startObserver({ sys: join(directory, "sys") });
    observer.reconcile.leftover("directory", 2);
    expect(await series(observer, "vhostuser_unreclaimed")).toEqual({
      'vhostuser_unreclaimed{what="allocation"}': 0,
      'vhostuser_unreclaimed{what="port"}': 0,
      'vhostuser_unreclaimed{what="directory"}': 2,
    });
    expect(await series(observer, "vhostuser_events_total")).toEqual({
      'vhostuser_events_total{outcome="posted"}': 1,
      'vhostuser_events_total{outcome="merged"}': 2,
      'vhostuser_events_total{outcome="dropped"}': 3,
      'vhostuser_events_total{outcome="failed"}': 4,
    });
    expect(await series(observer, "vhostuser_hugepages_free")).toEqual({
      'vhostuser_hugepages_free{size="2Mi"}': 3,
      'vhostuser_hugepages_free{size="1Gi"}': 0,
    });
    const room = async (name: string) => Object.values(await series(observer, name))[0] ?? Number.NaN;
    expect(await room("vhostuser_root_size_bytes")).toBeGreaterThan(await room("vhostuser_root_free_bytes"));
  });

  it("serves without a root that can be read, and without hugepages", async () => {
    const observer = await startObserver({ sys: join(directory, "nothing") });
    expect(await series(observer, "vhostuser_hugepages")).toEqual({});
    root = join(directory, "nothing");
    expect(await series(observer, "vhostuser_root_size_bytes")).toEqual({ vhostuser_root_size_bytes: 0 });
  });

  it("shows what the process costs and which release it is", async () => {
    const observer = await startObserver();
    observer.metrics.count("vhostuser_switch_connections_total", { switch: "ovs-dpdk" });
    const value = async (name: string) => Object.values(await series(observer, name))[0];
    expect(await value("process_resident_memory_bytes")).toBeGreaterThan(10_000_000);
    expect(await value("process_cpu_seconds_total")).toBeGreaterThan(0);
    expect(await value("process_open_fds")).toBeGreaterThan(3);
    expect(await value("process_start_time_seconds")).toBeCloseTo(performance.timeOrigin / 1000, 3);
    expect(await value("nodejs_eventloop_lag_seconds")).toBeGreaterThanOrEqual(0);
    expect(await value("vhostuser_switch_connections_total")).toBe(1);
    expect(await series(observer, "vhostuser_build_info")).toEqual({
      [`vhostuser_build_info{version="1.2.3",node_version="${process.versions.node}"}`]: 1,
    });
  });

  it("stays well-formed with scrapes at the same time, and never shows a pod's name", async () => {
    const observer = await startObserver();
    await observer.dataplanes.observe(new MemoryDataplane()).ensurePort(portRequest("p1"), SIGNAL);
    const texts = await Promise.all(
      Array.from({ length: 8 }, async () => (await fetch(`${observer.url}/metrics`)).text()),
    );
    for (const text of texts) {
      expect(readExposition(text).size).toBe(Object.keys(METRICS).length);
      expect(text).not.toContain("secret-pod");
    }
  });
});

describe("/metrics/interfaces", () => {
  it("is served only where it is wanted, because it shows names of pods", async () => {
    const without = await startObserver();
    expect((await fetch(`${without.url}/metrics/interfaces`)).status).toBe(404);
    const observer = await startObserver({ interfaces: true });
    const memory = new MemoryDataplane();
    const dead = new MemoryDataplane();
    dead.dead = true;
    observer.dataplanes.observe(dead);
    await records.ports.put(port("net1", "attached"));
    await observer.dataplanes.observe(memory).ensurePort(portRequest("vhunet1"), SIGNAL);
    const response = await fetch(`${observer.url}/metrics/interfaces`);
    expect(response.headers.get("content-type")).toBe("text/plain; version=0.0.4; charset=utf-8");
    const families = readExposition(await response.text());
    expect([...(families.get("vhostuser_interface_link_up")?.series.keys() ?? [])]).toEqual([
      'vhostuser_interface_link_up{pool="sockets",pod_namespace="d",pod_name="p",interface="net1"}',
    ]);
    expect(await happened(observer, "vhostuser_errors_total")).toEqual({});
  });
});

describe("probes", () => {
  it("is alive while the reconciler makes progress", async () => {
    const observer = await startObserver();
    const response = await fetch(`${observer.url}/livez`);
    expect([response.status, await response.text()]).toEqual([200, "ok\nreconciler: ok\n"]);
  });

  it("is dead when the reconciler makes no progress", async () => {
    const observer = await startObserver({ maxReconcilerSilenceMs: -1 });
    const response = await fetch(`${observer.url}/livez`);
    expect(response.status).toBe(503);
    expect(await response.text()).toMatch(/^not ok\nreconciler: NOT OK, no progress for \d+ s, /);
  });

  it("is ready when records, CNI socket and registrations are, whatever the switch does", async () => {
    await serveCniSocket();
    const observer = await startObserver();
    const memory = new MemoryDataplane();
    memory.dead = true;
    await observer.dataplanes.observe(memory).probe("br0", SIGNAL);
    pools = [{ name: "sockets", devices: [{ healthy: false }], healthy: false, claimPorts: 0 }];
    const response = await fetch(`${observer.url}/readyz`);
    expect([response.status, await response.text()]).toEqual([
      200,
      "ok\nroot: ok\nrecords: ok\nCNI socket: ok\nkubelet plugins: ok\n",
    ]);
  });

  it("says what is not ready", async () => {
    plugins = [
      { resource: "vhostuser/sockets", registered: false, registrations: 1 },
      { resource: "vhostuser/dataplane", registered: true, registrations: 1 },
    ];
    rootProblem = "it was unmounted on the node";
    const observer = await startObserver();
    await rm(join(directory, "records"), { recursive: true });
    const response = await fetch(`${observer.url}/readyz`);
    expect(response.status).toBe(503);
    const lines = (await response.text()).split("\n");
    expect(lines[0]).toBe("not ok");
    expect(lines[1]).toBe("root: NOT OK, it was unmounted on the node");
    expect(lines[2]).toMatch(/^records: NOT OK, .*\/records cannot be written: ENOENT/);
    expect(lines[3]).toMatch(/^CNI socket: NOT OK, .*\/cni.sock is not served: connect ENOENT/);
    expect(lines[4]).toBe("kubelet plugins: NOT OK, not registered with kubelet: vhostuser/sockets");
  });

  it("shows in a metric whether the root is the node's", async () => {
    const observer = await startObserver();
    const scrape = async () => (await fetch(`${observer.url}/metrics`)).text();
    expect(await scrape()).toContain("\nvhostuser_root_usable 1\n");
    rootProblem = "it was unmounted on the node";
    expect(await scrape()).toContain("\nvhostuser_root_usable 0\n");
  });

  it("is not ready before a plugin was started", async () => {
    await serveCniSocket();
    plugins = [];
    const response = await fetch(`${(await startObserver()).url}/readyz`);
    expect(await response.text()).toContain("kubelet plugins: NOT OK, none is started yet");
  });
});
