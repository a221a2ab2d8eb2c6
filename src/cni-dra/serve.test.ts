import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { waitUntil } from "../../test/machine/wait-until.ts";
import { type ApiRig, startApiRig } from "../../test/stand-in/api-server/api-rig.ts";
import type { Json } from "../../test/stand-in/api-server/object-store.ts";
import { RecordingPlugins } from "../../test/stand-in/cni-dra/recording-plugins.ts";
import { claimObject } from "../../test/stand-in/dra/claim-object.ts";
import { StandInDraManager } from "../../test/stand-in/kubelet/dra-manager.ts";
import { Runtime } from "../../test/stand-in/nri/runtime.ts";
import { systemClock } from "../sync/clock.ts";
import { CNI_DRIVER } from "./plan-interfaces.ts";
import { serveCniDra } from "./serve.ts";

let top: string;
let rig: ApiRig;
let kubelet: StandInDraManager;
let runtime: Runtime;
let plugins: RecordingPlugins;
let stop: AbortController;
let running: Promise<void>;
/** Where metrics are. */
let url: string;
/** How far the node's time was set forward. */
let steppedMs: number;

const start = () => {
  url = "";
  stop = new AbortController();
  running = serveCniDra({
    ...{ node: "n1", config: { allowedPlugins: { macvlan: ["mode"] } }, logger: rig.logger },
    ...{ stateDirectory: join(top, "state"), pluginDirectory: plugins.directory },
    nriSocket: join(top, "nri/nri.sock"),
    kubelet: { plugins: join(top, "p"), pluginsRegistry: join(top, "r") },
    ...{ cdiDirectory: join(top, "cdi"), readyDirectory: join(top, "ready") },
    ...{ netnsDirectory: join(top, "netns"), sysfs: top },
    ...{ serviceAccountDirectory: rig.serviceAccountDirectory, apiServer: undefined },
    ...{ apiServerUrl: rig.server.url, podUid: "driver-uid", signal: stop.signal },
    ...{ listen: { address: "127.0.0.1", port: 0 }, events: true },
    onServing: (where) => {
      url = where;
    },
    clock: { ...systemClock, now: () => systemClock.now() + steppedMs },
  });
};
const end = async () => {
  stop.abort("SIGTERM");
  await running;
};

beforeEach(async () => {
  top = await mkdtemp(join(tmpdir(), "cd-"));
  for (const name of ["r", "nri", "netns", "class/net/eth1/device", "class/net/dummy0", "state"])
    await mkdir(join(top, name), { recursive: true });
  await writeFile(join(top, "class/net/eth1/mtu"), "9000\n");
  steppedMs = 0;
  rig = await startApiRig();
  rig.server.store.create("nodes", { metadata: { name: "n1" } });
  plugins = new RecordingPlugins(join(top, "bin"));
  await plugins.install("macvlan");
  kubelet = new StandInDraManager(join(top, "r"));
  kubelet.start();
  start();
});
afterEach(async () => {
  await kubelet.stop();
  await end();
  await runtime.close();
  await rig.close();
  await rm(top, { recursive: true });
});

const settles = (what: string, isSo: () => boolean) => waitUntil(isSo, { what });
const status = (name = "c") =>
  ((rig.server.store.get("tenant/resourceclaims", name)["status"] as Json)["devices"] ??
    []) as readonly Json[];
/** The scheduler has allocated a claim to the pod. */
function createClaim(config: object = {}, name = "c") {
  const shareID = "a671734a-e8e5-11e4-8fde-42010af09327";
  const parameters = {
    ...{ apiVersion: "cni.networking.x-k8s.io/v1alpha1", kind: "CNIConfig", ifName: "net1" },
    config: { cniVersion: "1.0.0", name: "storage", type: "macvlan", mode: "bridge", ...config },
  };
  const { metadata: _, ...claim } = claimObject({
    ...{ name, namespace: "tenant" },
    results: [{ request: "net", driver: CNI_DRIVER, device: "eth1", shareID }],
    config: [{ source: "FromClaim", driver: CNI_DRIVER, parameters }],
  });
  const metadata = { name, namespace: "tenant" };
  const { uid } = rig.server.store.create("tenant/resourceclaims", { ...claim, metadata }).metadata;
  return { namespace: "tenant", name, uid };
}
function sandbox(id: string) {
  return { id, name: "pod", namespace: "tenant", uid: "pod-uid", netns: `/var/run/netns/${id}` };
}

const prepared = async () => {
  await runtime.listen();
  await kubelet.waitForDriver(CNI_DRIVER);
  const [device] = await kubelet.prepare("pod-uid", CNI_DRIVER, [createClaim()]);
  return device?.cdi_device_ids ?? [];
};
const BY_PLUGIN = { started: true, byPlugin: true };
/** kubelet tries a container until it starts. */
const kubeletStarts = (id: string, devices: readonly string[]) =>
  waitUntil(async () => (await runtime.runContainer(id, devices)).started, { what: `a container in ${id}` });

// The lines of the list of cases for NRI, by number; those of its wire protocol are in src/protocols/nri.
describe.each([
  { kind: "containerd", nri: "0.8" },
  { kind: "containerd", nri: "0.12" },
  { kind: "cri-o", nri: "0.11" },
] as const)("the driver with $kind, NRI $nri", ({ kind, nri }) => {
  beforeEach(() => {
    const netnsDirectory = join(top, "netns");
    runtime = new Runtime(join(top, "nri/nri.sock"), {
      ...{ kind, nri, netnsDirectory, cdiDirectory: join(top, "cdi") },
    });
  });

  it("registers with kubelet only after NRI has synchronized (NRI 7), and offers the host's interfaces", async () => {
    await settles("it is connected to the API server", () => existsSync(join(top, "state/owner.lock")));
    expect(await readdir(join(top, "r"))).toEqual([]);
    await runtime.listen();
    await kubelet.waitForDriver(CNI_DRIVER);
    await settles("devices are published", () => rig.server.store.all("resourceslices").length === 1);
    const [slice] = rig.server.store.all("resourceslices");
    expect(slice?.["spec"]).toMatchObject({
      ...{ driver: CNI_DRIVER, nodeName: "n1", pool: { name: "n1" } },
      devices: [
        { name: "cni", allowMultipleAllocations: true },
        {
          ...{ name: "eth1", allowMultipleAllocations: true },
          attributes: {
            ...{ interfaceName: { string: "eth1" }, mtu: { int: 9000 } },
            "plugins.cni.dra.networking.x-k8s.io/macvlan": { bool: true },
          },
        },
      ],
    });
  });

  it("makes a claim's interface when its pod starts, says so in its status, and ends it with the pod", async () => {
    await runtime.listen();
    await kubelet.waitForDriver(CNI_DRIVER);
    const [device] = await kubelet.prepare("pod-uid", CNI_DRIVER, [createClaim()]);
    expect(device).toMatchObject({ request_names: ["net"], pool_name: "n1", device_name: "eth1" });
    const [file = ""] = await readdir(join(top, "cdi"));
    const cdi = JSON.parse(await readFile(join(top, "cdi", file), "utf8"));
    expect(device?.cdi_device_ids).toEqual([`${cdi.kind}=${cdi.devices[0].name}`]);
    const [{ hostPath }] = cdi.devices[0].containerEdits.mounts;
    // What a container needs that uses the claim.
    expect(existsSync(hostPath)).toBe(false);

    expect(await runtime.run(sandbox("s1"))).toEqual(BY_PLUGIN);
    expect(await plugins.takeCalls()).toEqual(["ADD macvlan net1 s1 /var/run/netns/s1"]);
    expect(await plugins.stdinOf("ADD", "macvlan")).toEqual({
      ...{ cniVersion: "1.0.0", name: "storage", type: "macvlan", mode: "bridge", master: "eth1" },
    });
    expect(existsSync(hostPath)).toBe(true);
    expect(await runtime.runContainer("s1", device?.cdi_device_ids)).toEqual(BY_PLUGIN);
    await settles("the claim has a status", () => status().length === 1);
    expect(status()).toMatchObject([
      {
        ...{ driver: CNI_DRIVER, pool: "n1", device: "eth1", shareID: expect.any(String) },
        conditions: [{ type: "Ready", status: "True", reason: "NetworkInterfaceReady" }],
        data: { interfaces: [{ name: "veth1" }, { name: "net1" }] },
        networkData: { interfaceName: "net1", hardwareAddress: "02:00:00:00:00:01", ips: ["10.1.2.3/24"] },
      },
    ]);

    await runtime.stop("s1");
    await kubelet.unprepare("pod-uid", CNI_DRIVER);
    await runtime.remove("s1");
    const path = kind === "cri-o" ? "none" : "/var/run/netns/s1";
    expect(await plugins.takeCalls()).toEqual([`DEL macvlan net1 s1 ${path}`]);
    expect(await readdir(join(top, "cdi"))).toEqual([]);
    expect(await readdir(join(top, "ready"))).toEqual([]);
  });

  it("says in the claim's status and in the pod's event why a configuration is refused", async () => {
    await runtime.listen();
    await kubelet.waitForDriver(CNI_DRIVER);
    const claim = createClaim({ linkInContainer: true });
    await expect(kubelet.prepare("pod-uid", CNI_DRIVER, [claim])).rejects.toThrow(
      "invalid-claim: a claim may not set linkInContainer of the plugin macvlan here (claim tenant/c, request net)",
    );
    await settles("the claim has a status", () => status().length === 1);
    expect(status()[0]?.["conditions"]).toMatchObject([
      {
        ...{ type: "Ready", status: "False", reason: "NetworkInterfaceNotReady" },
        message: expect.stringContaining("may not set linkInContainer"),
      },
    ]);
  });

  it("leaves the status of an interface as it is where a repeated Prepare is refused", async () => {
    await runtime.listen();
    await kubelet.waitForDriver(CNI_DRIVER);
    const claim = createClaim();
    await kubelet.prepare("pod-uid", CNI_DRIVER, [claim]);
    await runtime.run(sandbox("s1"));
    await settles("it is ready", () => status()[0]?.["data"] !== undefined);
    const ready = status();
    // kubelet restarts, and the runtime is away.
    await kubelet.stop();
    await runtime.close();
    await waitUntil(async () => (await fetch(`${url}/readyz`)).status === 503, {
      what: "it is not connected",
    });
    kubelet.start();
    await kubelet.waitForDriver(CNI_DRIVER);
    const both = [claim, createClaim({}, "d")];
    await expect(kubelet.prepare("pod-uid", CNI_DRIVER, both)).rejects.toThrow("runtime-unavailable");
    await settles("the new claim has a status", () => status("d").length === 1);
    expect(status()).toEqual(ready);
  });

  it("keeps a pod from starting whose interface fails, with the reason", async () => {
    await prepared();
    await plugins.setFailing("ADD", "net1", true);
    expect(await runtime.run(sandbox("s1"))).toEqual({
      started: false,
      reason: expect.stringContaining('CNI plugin "macvlan": no carrier on net1'),
    });
    await settles("the claim has a status", () => status().length === 1);
    expect(status()[0]?.["conditions"]).toMatchObject([{ status: "False" }]);
    await plugins.setFailing("ADD", "net1", false);
    expect(await runtime.run(sandbox("s2"))).toEqual(BY_PLUGIN);
    await settles("it is ready", () => status()[0]?.["data"] !== undefined);
  });

  it("killed between Prepare and Run: no running container without its interface (NRI 9)", async () => {
    const devices = await prepared();
    await end();
    // The runtime does not wait for a plugin that is away.
    expect(await runtime.run(sandbox("s1"))).toEqual({ started: true, byPlugin: false });
    const missing = { started: false, reason: expect.stringContaining("no such file or directory") };
    expect(await runtime.runContainer("s1", devices)).toEqual(missing);
    start();
    await kubeletStarts("s1", devices);

    // Away while the pod gets another sandbox: what was ready for the one before is not ready for this one.
    await end();
    await runtime.stop("s1");
    expect(await runtime.run(sandbox("s2"))).toEqual({ started: true, byPlugin: false });
    expect(await runtime.runContainer("s2", devices)).toEqual(missing);
    start();
    await kubeletStarts("s2", devices);
    expect(await plugins.takeCalls()).toEqual([
      "ADD macvlan net1 s1 /var/run/netns/s1",
      "DEL macvlan net1 s1 none",
      "ADD macvlan net1 s2 /var/run/netns/s2",
    ]);
  });

  it("makes what a sandbox lacks before the next container, also one that does not use the claim", async () => {
    await prepared();
    await end();
    await runtime.run(sandbox("s1"));
    start();
    await settles("it is back", () => runtime.isReady);
    expect(await runtime.runContainer("s1")).toEqual(BY_PLUGIN);
    expect(await plugins.takeCalls()).toEqual(["ADD macvlan net1 s1 /var/run/netns/s1"]);
  });

  it("meets a new sandbox of the same pod: new ADD, DEL of the old, no Prepare (NRI 13)", async () => {
    const devices = await prepared();
    await runtime.run(sandbox("s1"));
    await runtime.stop("s1");
    expect(await runtime.run(sandbox("s2"))).toEqual(BY_PLUGIN);
    expect(await runtime.runContainer("s2", devices)).toEqual(BY_PLUGIN);
    await runtime.remove("s1");
    expect((await plugins.takeCalls()).map((call) => call.split(" ").slice(0, 4).join(" "))).toEqual([
      ...["ADD macvlan net1 s1", "DEL macvlan net1 s1", "ADD macvlan net1 s2"],
    ]);
  });

  it("cleans a pod that is stopped after a restart of the runtime, by Unprepare at the latest (NRI 15)", async () => {
    await prepared();
    await runtime.run(sandbox("s1"));
    await runtime.restart();
    await settles("it is connected again", () => runtime.isReady);
    await runtime.stop("s1");
    await kubelet.unprepare("pod-uid", CNI_DRIVER);
    await runtime.remove("s1");
    expect(await plugins.takeCalls()).toEqual([
      "ADD macvlan net1 s1 /var/run/netns/s1",
      "DEL macvlan net1 s1 none",
    ]);
    expect(await readdir(join(top, "cdi"))).toEqual([]);
  });

  it("says in the claim's status and in a pod's event that a DEL fails for ten minutes", async () => {
    await prepared();
    await runtime.run(sandbox("s1"));
    await plugins.setFailing("DEL", "net1", true);
    await runtime.stop("s1");
    await expect(kubelet.unprepare("pod-uid", CNI_DRIVER)).rejects.toThrow("no carrier on net1");
    steppedMs = 10 * 60_000;
    await settles("the claim says so", () => JSON.stringify(status()).includes("DelFailing"));
    expect(status()).toMatchObject([
      {
        conditions: [
          { type: "Ready", status: "False", message: expect.stringContaining("no carrier on net1") },
          { type: "DelFailing", status: "True", reason: "CniPluginFailed" },
        ],
      },
    ]);
    await settles("the event is posted", () => rig.server.events.length === 1);
    expect(rig.server.events).toMatchObject([
      { reason: "InterfaceNotRemoved", regarding: { kind: "Pod", namespace: "tenant", name: "pod" } },
    ]);
    expect(await (await fetch(`${url}/metrics`)).text()).toContain("vhostuser_cni_dra_stuck_dels 1\n");
    await plugins.setFailing("DEL", "net1", false);
    await settles("it is removed", () => status().length === 0);
    await kubelet.unprepare("pod-uid", CNI_DRIVER);
  });

  it("serves probes and metrics before the runtime is there, and events about pods that do not start", async () => {
    await settles("it serves", () => url !== "");
    const page = async (path: string) => {
      const answer = await fetch(`${url}${path}`);
      return [answer.status, await answer.text()];
    };
    expect(await page("/livez")).toEqual([200, "ok\n"]);
    expect(await page("/readyz")).toEqual([
      503,
      "not ok\nrecords: ok\nruntime: NOT OK, NRI is not connected\nkubelet: NOT OK, not registered\n",
    ]);
    await prepared();
    await plugins.setFailing("ADD", "net1", true);
    await runtime.run(sandbox("s1"));
    await settles("the event is posted", () => rig.server.events.length === 1);
    expect(rig.server.events).toMatchObject([
      {
        ...{ reason: "InterfaceFailed", note: expect.stringContaining("no carrier on net1") },
        reportingController: "kube-vhostuser.io/cni-dra",
      },
    ]);
    expect(await page("/readyz")).toEqual([200, "ok\nrecords: ok\nruntime: ok\nkubelet: ok\n"]);
    const [, metrics] = await page("/metrics");
    for (const line of [
      'vhostuser_cni_dra_claim_calls_total{call="prepare",code="ok"} 1',
      'vhostuser_cni_dra_plugin_call_duration_seconds_count{verb="ADD",outcome="failed"} 1',
      'vhostuser_cni_dra_hook_duration_seconds_count{hook="RunPodSandbox",outcome="failed"} 1',
      'vhostuser_cni_dra_interfaces{state="prepared"} 1',
      "vhostuser_cni_dra_runtime_connected 1",
      'vhostuser_events_total{outcome="posted"} 1',
    ])
      expect(metrics).toContain(`${line}\n`);
  });
});
