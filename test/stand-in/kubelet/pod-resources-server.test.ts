import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { loadService } from "../../../src/grpc/load-service.ts";
import { dialUnix, type UnixClient } from "../../../src/grpc/unix-client.ts";
import type { UnixServer } from "../../../src/grpc/unix-server.ts";
import { BarePlugin, register } from "./bare-plugin.ts";
import { StandInKubelet } from "./kubelet.ts";
import type { PodRequest } from "./pod.ts";

const RESOURCE = "vhostuser/sockets";

interface Listed {
  readonly pod_resources: readonly {
    readonly name: string;
    readonly containers: readonly { readonly name: string; readonly devices: readonly object[] }[];
  }[];
}

let root: string;
let kubelet: StandInKubelet;
let client: UnixClient;
let server: UnixServer | undefined;

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "kubelet-"));
  kubelet = await StandInKubelet.start({ root });
  const service = loadService("kubelet/pod-resources-v1.proto", "v1.PodResourcesLister");
  client = dialUnix(service, kubelet.paths.podResourcesSocket, { "grpc.use_local_subchannel_pool": 1 });
});

afterEach(async () => {
  client.close();
  await server?.close();
  server = undefined;
  await kubelet.stop();
  await rm(root, { recursive: true, force: true });
});

const call = <Answer>(method: string, request: object = {}): Promise<Answer> =>
  client.call<Answer>(method, request, 10_000);

async function serve(plugin: BarePlugin): Promise<void> {
  server = await plugin.listen(kubelet.paths);
  await register(kubelet.paths);
  await kubelet.waitForAllocatable(RESOURCE, plugin.devices.length);
}

function pod(count: number): PodRequest {
  return { namespace: "ns", name: "vm", containers: [{ name: "main", resources: { [RESOURCE]: count } }] };
}

describe("the stand-in kubelet's PodResources", () => {
  it("lists every device in an entry of its own, with its NUMA nodes", async () => {
    const bare = new BarePlugin();
    bare.devices = ["a", "b"].map((ID) => ({ ID, health: "Healthy", topology: { nodes: [{ ID: 1 }] } }));
    await serve(bare);
    await kubelet.admitPod(pod(2));
    const entry = (id: string) => ({
      resource_name: RESOURCE,
      device_ids: [id],
      topology: { nodes: [{ ID: 1 }] },
    });
    const { pod_resources } = await call<Listed>("List");
    expect(pod_resources).toHaveLength(1);
    const devices = pod_resources[0]?.containers[0]?.devices;
    expect(devices).toHaveLength(2);
    expect(devices).toEqual(expect.arrayContaining([entry("a"), entry("b")]));
    expect(await call("GetAllocatableResources")).toMatchObject({
      devices: [entry("a"), entry("b")],
    });
    expect(await call("Get", { pod_name: "vm", pod_namespace: "ns" })).toMatchObject({
      pod_resources: { name: "vm", namespace: "ns" },
    });
    await expect(call("Get", { pod_name: "none", pod_namespace: "ns" })).rejects.toThrow("not found");
  });

  it("frees removed pods' devices when listed", async () => {
    await serve(new BarePlugin("a"));
    await kubelet.admitPod(pod(1));
    kubelet.removePod({ namespace: "ns", name: "vm" });
    expect((await call<Listed>("List")).pod_resources).toEqual([]);
  });

  it("lists app containers and restartable init containers, not plain ones", async () => {
    await serve(new BarePlugin("a", "b"));
    const initContainers = [
      { name: "init", resources: { [RESOURCE]: 1 } },
      { name: "sidecar", restartable: true },
    ];
    await kubelet.admitPod({ ...pod(1), initContainers });
    const { pod_resources } = await call<Listed>("List");
    expect(pod_resources[0]?.containers.map(({ name }) => name)).toEqual(["sidecar", "main"]);
  });

  it("refuses who calls too often", async () => {
    const calls = await Promise.allSettled(Array.from({ length: 300 }, () => call("List")));
    const refused = calls.filter(({ status }) => status === "rejected");
    expect(refused.length).toBeGreaterThan(0);
    expect(calls.length - refused.length).toBeGreaterThanOrEqual(10);
    expect(String(refused[0]?.status === "rejected" && refused[0].reason)).toContain(
      "rejected by rate limit",
    );
  });
});
