import { mkdir, mkdtemp, readdir, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { loadService } from "../../../src/grpc/load-service.ts";
import { serveUnix, type UnixServer } from "../../../src/grpc/unix-server.ts";
import { type FakeCall, readCalls, writeFakePlugin } from "./fake-plugin.ts";
import { StandInMultus, type StandInMultusOptions } from "./multus.ts";
import type { SelectedNetwork } from "./network.ts";

const RESOURCE = "vhostuser/sockets";
// This process' own network namespace: looking into it needs no privilege.
const NETNS = `/proc/${process.pid}/ns/net`;
const sandbox = { pod: { namespace: "ns", name: "vm", uid: "uid-1" }, containerId: "c0ffee", netns: NETNS };

let root: string;
let log: string;
let podResources: UnixServer;
/** Device ids of the pod ns/vm, by container, in kubelet's order. */
let held: readonly (readonly string[])[];

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "multus-"));
  log = join(root, "calls");
  for (const name of ["bin", "dp"]) await mkdir(join(root, name));
  held = [];
  const { definition } = loadService("kubelet/pod-resources-v1.proto", "v1.PodResourcesLister");
  podResources = await serveUnix({
    socketPath: join(root, "kubelet.sock"),
    services: [
      {
        definition,
        implementation: {
          List: (_call: unknown, respond: (error: null, answer: object) => void) =>
            respond(null, { pod_resources: [podEntry("other", [["x"]]), podEntry("vm", held)] }),
        },
      },
    ],
  });
  await fake("fake");
});

afterEach(async () => {
  await podResources.close();
  await rm(root, { recursive: true, force: true });
});

function podEntry(name: string, containers: readonly (readonly string[])[]): object {
  return {
    name,
    namespace: "ns",
    containers: containers.map((ids, index) => ({
      name: `c${index}`,
      devices: ids.map((id) => ({ resource_name: RESOURCE, device_ids: [id] })),
    })),
  };
}

const fake = (type: string, behave?: string) =>
  writeFakePlugin({ directory: join(root, "bin"), type, log, ...(behave === undefined ? {} : { behave }) });

function multus(options: Partial<StandInMultusOptions> = {}): StandInMultus {
  return new StandInMultus({
    cniBinDir: join(root, "bin"),
    podResourcesSocket: join(root, "kubelet.sock"),
    deviceInfo: { devicePlugin: join(root, "dp"), cni: join(root, "cni") },
    cacheDirectory: join(root, "cache"),
    ...options,
  });
}

function network(name: string, keys: Partial<SelectedNetwork> = {}, config: object = {}): SelectedNetwork {
  return {
    namespace: "nets",
    name,
    config: { cniVersion: "1.1.0", type: "fake", ...config },
    ...keys,
  };
}

const device = { resourceName: RESOURCE };
const capabilities = { capabilities: { deviceID: true, CNIDeviceInfoFile: true, mac: true, ips: true } };
const calls = (): Promise<readonly FakeCall[]> => readCalls(log);
const order = async () => (await calls()).map(({ env }) => `${env["CNI_COMMAND"]} ${env["CNI_IFNAME"]}`);

async function writeDeviceInfo(id: string, info: object): Promise<void> {
  await writeFile(join(root, "dp", `vhostuser-sockets-${id}-device.json`), JSON.stringify(info));
}

describe("what the stand-in Multus gives to a plugin", () => {
  it("is the environment of CNI and of nobody else, and the configuration with the network's name", async () => {
    await multus().attach({ ...sandbox, networks: [network("lan")] });
    const [call] = await calls();
    expect(call?.env).toEqual({
      PATH: expect.any(String),
      CNI_COMMAND: "ADD",
      CNI_CONTAINERID: "c0ffee",
      CNI_NETNS: NETNS,
      CNI_IFNAME: "net1",
      CNI_ARGS:
        "IgnoreUnknown=true;K8S_POD_NAMESPACE=ns;K8S_POD_NAME=vm;K8S_POD_INFRA_CONTAINER_ID=c0ffee;K8S_POD_UID=uid-1",
      CNI_PATH: join(root, "bin"),
    });
    expect(call?.stdin).toEqual({ cniVersion: "1.1.0", type: "fake", name: "lan" });
  });

  it("has the runtime's environment when thin and the daemon pod's when thick", async () => {
    const runtimeEnv = { PATH: "/usr/bin", CNI_PATH: "/opt/cni/bin", CONTAINERD: "yes" };
    await multus({ runtimeEnv }).attach({ ...sandbox, networks: [network("lan")] });
    await multus({ mode: "thick" }).attach({ ...sandbox, networks: [network("lan")] });
    const [thin, thick] = await calls();
    expect(thin?.env).toMatchObject({ CONTAINERD: "yes", CNI_PATH: `${join(root, "bin")}:/opt/cni/bin` });
    expect(thick?.env).not.toHaveProperty("CONTAINERD");
    expect(thick?.env).toMatchObject({ KUBERNETES_SERVICE_HOST: expect.any(String) });
  });

  it("holds device, MAC, addresses and device-info file where capabilities declare them, else the device alone", async () => {
    held = [["a-00001"]];
    const keys = { ...device, mac: "02:00:00:00:00:09", ips: ["10.0.0.9/24"], interface: "pod1" };
    await multus().attach({ ...sandbox, networks: [network("lan", keys, capabilities)] });
    await multus().attach({ ...sandbox, containerId: "c1", networks: [network("lan", keys)] });
    const [declared, bare] = await calls();
    expect(declared?.stdin).toMatchObject({
      deviceID: "a-00001",
      pciBusID: "a-00001",
      runtimeConfig: {
        deviceID: "a-00001",
        CNIDeviceInfoFile: join(root, "cni/nets-lan-c0ffee_pod1"),
        mac: "02:00:00:00:00:09",
        ips: ["10.0.0.9/24"],
      },
    });
    expect(bare?.stdin).toMatchObject({ deviceID: "a-00001", pciBusID: "a-00001" });
    expect(bare?.stdin).not.toHaveProperty("runtimeConfig");
    expect(bare?.env["CNI_ARGS"]).toMatch(/;MAC=02:00:00:00:00:09;IP=10\.0\.0\.9\/24$/);
  });

  it("has no device-info file without a device", async () => {
    await multus().attach({ ...sandbox, networks: [network("lan", device, capabilities)] });
    const [call] = await calls();
    expect(call?.stdin).not.toHaveProperty("runtimeConfig");
    expect(call?.stdin).not.toHaveProperty("deviceID");
  });

  it("has the selection's arguments over the configuration's", async () => {
    const config = { args: { cni: { a: 1, b: 1 }, other: 2 } };
    await multus().attach({ ...sandbox, networks: [network("lan", { cniArgs: { b: 3 } }, config)] });
    expect((await calls())[0]?.stdin).toMatchObject({ args: { cni: { a: 1, b: 3 }, other: 2 } });
  });

  it("passes the result along a list of plugins, in the highest version that is offered", async () => {
    const config = JSON.stringify({
      cniVersion: "0.4.0",
      cniVersions: ["1.0.0", "9.0.0"],
      name: "chain",
      plugins: [{ type: "fake" }, { type: "fake", own: true }],
    });
    await multus().attach({ ...sandbox, networks: [{ namespace: "nets", name: "lan", config }] });
    const [first, second] = await calls();
    expect(first?.stdin).toEqual({ type: "fake", name: "chain", cniVersion: "1.0.0" });
    expect(second?.stdin).toMatchObject({ own: true, prevResult: { interfaces: [{ name: "net1" }] } });
  });
});

describe("the stand-in Multus' devices", () => {
  it.each([
    { order: "sorted" as const, gives: ["a-00001", "a-00002", "a-00003", undefined] },
    { order: "kubelet" as const, gives: ["a-00003", "a-00001", "a-00002", undefined] },
  ])("go to the networks one by one, of all containers, in order: $order", async ({ order, gives }) => {
    held = [["a-00003", "a-00001"], ["a-00002"]];
    const networks = [
      network("one", device),
      network("plain"),
      ...["two", "three", "four"].map((name) => network(name, device)),
    ];
    await multus({ deviceIdOrder: order }).attach({ ...sandbox, networks });
    const ids = (await calls()).map(({ stdin }) => stdin["deviceID"]);
    expect(ids).toEqual([gives[0], undefined, ...gives.slice(1)]);
  });

  it("have their file copied read-only before ADD and shown in the status as the plugin left it", async () => {
    held = [["a-00001", "a-00002"]];
    await writeDeviceInfo("a-00001", { type: "vhost-user", version: "1.1.0", from: "device plugin" });
    await writeDeviceInfo("a-00002", { type: "vhost-user", version: "1.1.0", from: "device plugin" });
    await fake(
      "rewriting",
      `if (verb === "ADD") {
        const file = stdin.runtimeConfig.CNIDeviceInfoFile;
        const found = JSON.parse(fs.readFileSync(file, "utf8"));
        fs.rmSync(file);
        fs.writeFileSync(file, JSON.stringify({ ...found, from: "CNI" }));
      }`,
    );
    const { networkStatus } = await multus().attach({
      ...sandbox,
      networks: [network("one", device), network("two", device, { type: "rewriting", ...capabilities })],
    });
    expect(networkStatus.map((status) => status["device-info"])).toEqual([
      { type: "vhost-user", version: "1.1.0", from: "device plugin" },
      { type: "vhost-user", version: "1.1.0", from: "CNI" },
    ]);
    expect((await stat(join(root, "cni/nets-one-c0ffee_net1"))).mode & 0o777).toBe(0o444);
    await multus().detach(sandbox);
    expect(await readdir(join(root, "cni"))).toEqual([]);
  });

  it("are not given when kubelet cannot be asked", async () => {
    await podResources.close();
    await expect(multus().attach({ ...sandbox, networks: [network("one", device)] })).rejects.toThrow();
    expect(await calls()).toEqual([]);
  });
});

describe("the stand-in Multus' clean-up", () => {
  const refusing = `if (verb === "ADD") { exit = 1; out = { cniVersion: stdin.cniVersion, code: 11, msg: "not now" }; }`;

  it("deletes all up to the failed network, in reverse, and gives the plugin's error", async () => {
    await fake("refusing", refusing);
    const networks = [network("one"), network("two", {}, { type: "refusing" }), network("three")];
    await expect(multus().attach({ ...sandbox, networks })).rejects.toMatchObject({
      name: "CniError",
      code: 11,
      message: "not now",
    });
    expect(await order()).toEqual(["ADD net1", "ADD net2", "DEL net2", "DEL net1"]);
  });

  it("detaches in reverse from the cache, with device and previous result, and once", async () => {
    held = [["a-00001"]];
    const config = { type: "fake", ...capabilities };
    const keys = { ...device, mac: "02:00:00:00:00:09" };
    await multus().attach({ ...sandbox, networks: [network("one", keys, config), network("two")] });
    held = [];
    const gone = { ...sandbox, netns: "" };
    await multus().detach(gone);
    await multus().detach(gone);
    expect(await order()).toEqual(["ADD net1", "ADD net2", "DEL net2", "DEL net1"]);
    const last = (await calls()).at(-1);
    expect(last?.stdin).toMatchObject({
      deviceID: "a-00001",
      runtimeConfig: { deviceID: "a-00001", CNIDeviceInfoFile: join(root, "cni/nets-one-c0ffee_net1") },
      prevResult: { cniVersion: "1.1.0", interfaces: [{ name: "net1" }] },
    });
    expect(last?.env).toMatchObject({ CNI_NETNS: "" });
    expect(last?.env["CNI_ARGS"]).not.toContain("MAC=");
    expect(await readdir(join(root, "cache/results"))).toEqual([]);
  });

  it("gives no previous result before CNI 0.4.0", async () => {
    const networks = [network("old", {}, { cniVersion: "0.3.1" })];
    await multus().attach({ ...sandbox, networks });
    await multus().detach(sandbox);
    expect((await calls()).at(-1)?.stdin).not.toHaveProperty("prevResult");
  });

  it.each([
    { retryDeleteOnError: false, calls: 2 },
    { retryDeleteOnError: true, calls: 3 },
  ])("forgets a DEL that failed unless told to retry: $retryDeleteOnError", async (example) => {
    await fake(
      "stuck",
      `if (verb === "DEL") { exit = 1; out = { cniVersion: stdin.cniVersion, code: 5, msg: "x" }; }`,
    );
    const subject = multus({ retryDeleteOnError: example.retryDeleteOnError });
    await subject.attach({ ...sandbox, networks: [network("one", {}, { type: "stuck" })] });
    await expect(subject.detach(sandbox)).rejects.toThrow("x");
    await subject.detach(sandbox).catch(() => undefined);
    expect(await calls()).toHaveLength(example.calls);
  });
});
