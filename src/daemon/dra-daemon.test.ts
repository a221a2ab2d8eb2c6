import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { waitUntil } from "../../test/machine/wait-until.ts";
import { type ApiRig, startApiRig } from "../../test/stand-in/api-server/api-rig.ts";
import { DRIVER } from "../../test/stand-in/dra/claim-object.ts";
import { StandInDraManager } from "../../test/stand-in/kubelet/dra-manager.ts";
import { parseConfig } from "../config/load.ts";
import { silentLogger } from "../logging/logger.ts";
import { systemClock } from "../sync/clock.ts";
import { type Daemon, startDaemon } from "./assemble.ts";

let directory: string;
let rig: ApiRig;
let daemon: Daemon | undefined;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "kvu-dra-"));
  for (const name of ["root", "registry"]) await mkdir(join(directory, name));
  rig = await startApiRig();
  rig.server.store.create("nodes", { metadata: { name: "n" } });
});
afterEach(async () => {
  await daemon?.close();
  daemon = undefined;
  await rig.close();
  await rm(directory, { recursive: true });
});

/** @returns where it serves metrics */
async function start(keys: object, poolKeys: object): Promise<string> {
  let url = "";
  const info = (fields: { url?: string }, text: string) => {
    if (text === "serving metrics and probes") url = fields.url ?? "";
  };
  const pool = {
    ...{ capacity: 8, ...poolKeys },
    dataplane: { type: "ovs-dpdk", database: join(directory, "db.sock"), bridge: "br" },
  };
  const kubelet = {
    ...{ devicePlugins: directory, podResources: join(directory, "pods.sock") },
    ...{ plugins: join(directory, "plugins"), pluginsRegistry: join(directory, "registry") },
  };
  const config = {
    ...{ node: "n", root: join(directory, "root"), rootFileSystem: { allowInsecure: true } },
    ...{ recordsDirectory: join(directory, "records"), cniSocket: join(directory, "cni.sock") },
    ...{ deviceInfoDirectory: join(directory, "devinfo"), kubelet },
    ...{ observe: { address: "127.0.0.1", port: 0 }, pools: { sockets: pool }, ...keys },
  };
  daemon = await startDaemon({
    config: parseConfig(JSON.stringify(config), "test"),
    ...{ ownPod: undefined, version: "0", clock: systemClock, signal: new AbortController().signal },
    logger: { ...silentLogger, info } as unknown as typeof silentLogger,
  });
  return url;
}

const metric = async (url: string, name: string) =>
  (await (await fetch(`${url}/metrics`)).text()).split("\n").filter((line) => line.startsWith(`${name}{`));

it("a daemon with claims registers the driver and publishes a slice, which is empty while the switch is away", async () => {
  const dra = {
    ...{ enabled: true, apiServer: rig.server.url, cdiDirectory: join(directory, "cdi") },
    serviceAccountDirectory: rig.serviceAccountDirectory,
  };
  const url = await start({ dra }, { claims: { ports: 5 } });
  const kubelet = new StandInDraManager(join(directory, "registry"));
  kubelet.start();
  try {
    await kubelet.waitForDriver(DRIVER);
    const slices = () => rig.server.store.all("resourceslices");
    await waitUntil(() => slices().length === 1, { what: "a slice is published" });
    expect(slices()[0]?.["spec"]).not.toHaveProperty("devices");
    const registered = `vhostuser_kubelet_registered{resource="${DRIVER}"} 1`;
    await waitUntil(async () => (await metric(url, "vhostuser_kubelet_registered")).includes(registered), {
      what: "the metric says that kubelet has the driver",
    });
    expect(await metric(url, "vhostuser_pool_devices")).toEqual(['vhostuser_pool_devices{pool="sockets"} 3']);
    expect(await metric(url, "vhostuser_pool_claim_ports")).toEqual([
      'vhostuser_pool_claim_ports{pool="sockets"} 5',
    ]);
  } finally {
    await kubelet.stop();
  }
});

it("a daemon without claims asks the API server for nothing and makes no socket for a driver", async () => {
  const url = await start({}, {});
  expect(await metric(url, "vhostuser_pool_devices")).toEqual(['vhostuser_pool_devices{pool="sockets"} 8']);
  expect((await metric(url, "vhostuser_kubelet_registered")).join()).not.toContain(DRIVER);
  expect(rig.server.answers).toEqual([]);
});
