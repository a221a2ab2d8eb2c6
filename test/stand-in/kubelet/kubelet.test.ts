import { mkdir, mkdtemp, readdir, rm, stat, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { UnixServer } from "../../../src/grpc/unix-server.ts";
import { BarePlugin, register } from "./bare-plugin.ts";
import { StandInKubelet } from "./kubelet.ts";
import type { InitContainerRequest, PodRequest } from "./pod.ts";

const RESOURCE = "vhostuser/sockets";

let root: string;
let kubelet: StandInKubelet;
const servers: (UnixServer | Server)[] = [];

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "kubelet-"));
  kubelet = await StandInKubelet.start({ root });
});

afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
  await kubelet.stop();
  await rm(root, { recursive: true, force: true });
});

async function listen(bare: BarePlugin, endpoint?: string): Promise<UnixServer> {
  const server = await bare.listen(kubelet.paths, endpoint);
  servers.push(server);
  return server;
}

async function plugin(...ids: readonly string[]): Promise<BarePlugin> {
  const bare = new BarePlugin(...ids);
  await listen(bare);
  await register(kubelet.paths);
  await kubelet.waitForAllocatable(RESOURCE, ids.length);
  return bare;
}

function pod(name: string, count: number, initContainers: readonly InitContainerRequest[] = []): PodRequest {
  return {
    namespace: "ns",
    name,
    initContainers,
    containers: [{ name: "main", resources: { [RESOURCE]: count } }],
  };
}

async function until(condition: () => boolean): Promise<void> {
  const end = performance.now() + 30_000;
  while (!condition()) {
    if (performance.now() > end) throw new Error("not within 30 s");
    await delay(5);
  }
}

describe("the stand-in kubelet's registration", () => {
  it.each([
    { what: "another version", request: { version: "v1" }, says: 'version "v1" is not supported' },
    { what: "a resource without a domain", request: { resource: "sockets" }, says: "is invalid" },
    { what: "Kubernetes' own domain", request: { resource: "a.kubernetes.io/b" }, says: "is invalid" },
    { what: "the quota's prefix", request: { resource: "requests.a/b" }, says: "is invalid" },
    { what: "a path for an endpoint", request: { endpoint: "../a.sock" }, says: "plain name" },
    { what: "a socket that is not there", request: { endpoint: "b.sock" }, says: "failed to dial" },
  ])("refuses $what", async ({ request, says }) => {
    await listen(new BarePlugin());
    await expect(register(kubelet.paths, request)).rejects.toThrow(says);
    expect(kubelet.registrations.at(-1)?.error).toContain(says);
  });

  it("cuts off whoever is registered by now when an older stream ends", async () => {
    const old = await listen(new BarePlugin("a"));
    await register(kubelet.paths);
    await kubelet.waitForAllocatable(RESOURCE, 1);
    const next = new BarePlugin("a", "b");
    await listen(next, "b.sock");
    await register(kubelet.paths, { endpoint: "b.sock" });
    await kubelet.waitForAllocatable(RESOURCE, 2);
    await old.close();
    await until(() => next.streams[0]?.cancelled === true);
    await kubelet.waitForAllocatable(RESOURCE, 0);
    expect(await kubelet.admitPod(pod("vm", 1))).toMatchObject({ phase: "Failed" });
  });

  it("ends the stream at a list of more than 4 MiB", async () => {
    const ids = Array.from({ length: 60_000 }, (_, index) => `${"x".repeat(57)}-${index}`.slice(0, 63));
    const bare = new BarePlugin(...ids);
    await listen(bare);
    await register(kubelet.paths);
    await until(() => bare.streams[0]?.cancelled === true);
    expect(kubelet.capacity(RESOURCE)).toEqual({ capacity: 0, allocatable: 0 });
  });

  it("takes any health but Healthy for unhealthy", async () => {
    const bare = await plugin("a", "b");
    bare.streams[0]?.write({
      devices: [
        { ID: "a", health: "healthy" },
        { ID: "b", health: "Healthy" },
      ],
    });
    await kubelet.waitForAllocatable(RESOURCE, 1);
    expect(kubelet.capacity(RESOURCE)).toEqual({ capacity: 2, allocatable: 1 });
  });
});

describe("the stand-in kubelet's admission", () => {
  it("refuses a resource that nobody registered, and more devices than are free, for good", async () => {
    const unregistered = await kubelet.admitPod(pod("vm", 1));
    expect(unregistered).toMatchObject({ phase: "Failed", reason: "UnexpectedAdmissionError" });
    expect(unregistered.phase === "Failed" && unregistered.message).toContain("unregistered device");
    await plugin("a", "b");
    const admission = await kubelet.admitPod(pod("vm", 3));
    expect(admission.phase === "Failed" && admission.message).toContain("Requested: 3, Available: 2");
  });

  it("gives a plain init container's devices to the next container, and lets a restartable one keep its own", async () => {
    await plugin("a", "b", "c");
    const resources = { [RESOURCE]: 1 };
    const admission = await kubelet.admitPod(
      pod("vm", 2, [
        { name: "init", resources },
        { name: "sidecar", resources, restartable: true },
      ]),
    );
    if (admission.phase !== "Running") throw new Error(admission.message);
    const [init, sidecar, main] = admission.containers.map(({ deviceIds }) => deviceIds[RESOURCE]);
    // The sidecar took over the init container's device, so the main container gets the other two.
    expect(sidecar).toEqual(init);
    expect(new Set([...(sidecar ?? []), ...(main ?? [])])).toEqual(new Set(["a", "b", "c"]));
  });

  it("frees a removed pod's devices only at the next allocation or List", async () => {
    await plugin("a");
    await kubelet.admitPod(pod("one", 1));
    kubelet.removePod({ namespace: "ns", name: "one" });
    expect(await kubelet.admitPod(pod("two", 1))).toMatchObject({ phase: "Running" });
    expect(kubelet.allocateCalls.map(({ ids }) => ids)).toEqual([["a"], ["a"]]);
  });

  it("asks for a preference only where it is offered, and drops devices that were not on offer", async () => {
    const bare = new BarePlugin("a", "b", "c");
    bare.options = { get_preferred_allocation_available: true };
    bare.preferred = ["nonsense", "c"];
    await listen(bare);
    await register(kubelet.paths);
    await kubelet.waitForAllocatable(RESOURCE, 3);
    await kubelet.admitPod(pod("vm", 2));
    const ids = kubelet.allocateCalls[0]?.ids;
    expect(ids).toHaveLength(2);
    expect(ids).toContain("c");
  });

  it("picks in an order that the seed decides", async () => {
    const orders = new Set<string>();
    for (let seed = 1; seed <= 8; seed++) {
      await kubelet.stop();
      kubelet = await StandInKubelet.start({ root: join(root, String(seed)), seed });
      await plugin("a", "b", "c", "d");
      await kubelet.admitPod(pod("vm", 4));
      orders.add(kubelet.allocateCalls[0]?.ids.join() ?? "");
    }
    expect(orders.size).toBeGreaterThan(1);
  });

  it("says what the runtime could not mount", async () => {
    const bare = await plugin("a");
    bare.answer = { mounts: [{ container_path: "run/x", host_path: `${root}/none` }] };
    await expect(kubelet.admitPod(pod("vm", 1))).rejects.toThrow(
      `"run/x" is not absolute and normal; main: host path ${root}/none does not exist`,
    );
  });
});

describe("the stand-in kubelet's restart", () => {
  it("deletes every socket in its directory and nothing else", async () => {
    const directory = kubelet.paths.pluginDirectory;
    await plugin("a");
    const foreign = createServer();
    servers.push(foreign);
    await new Promise<void>((resolve) => foreign.listen(join(directory, "foreign.sock"), resolve));
    await writeFile(join(directory, "file"), "");
    await mkdir(join(directory, "folder"));
    await kubelet.restart();
    expect((await readdir(directory)).sort()).toEqual([
      "file",
      "folder",
      "kubelet.sock",
      "kubelet_internal_checkpoint",
    ]);
  });

  it("leaves a dead socket behind while it is down, and makes another one", async () => {
    const before = await stat(kubelet.paths.kubeletSocket, { bigint: true });
    await kubelet.stop();
    expect(await stat(kubelet.paths.kubeletSocket, { bigint: true })).toMatchObject({ ino: before.ino });
    await expect(register(kubelet.paths)).rejects.toThrow("ECONNREFUSED");
    await kubelet.start();
    const after = await stat(kubelet.paths.kubeletSocket, { bigint: true });
    expect(after.birthtimeNs).not.toBe(before.birthtimeNs);
  });

  it("forgets registrations but not who holds what, and does not allocate again", async () => {
    await plugin("a", "b");
    const admission = await kubelet.admitPod(pod("vm", 1));
    await kubelet.restart();
    expect(kubelet.capacity(RESOURCE)).toEqual({ capacity: 0, allocatable: 0 });
    expect(admission.phase === "Running" && admission.containers).toEqual(
      kubelet.containers({ namespace: "ns", name: "vm" }),
    );
    const refused = await kubelet.admitPod(pod("early", 1));
    expect(refused.phase === "Failed" && refused.message).toContain("no healthy devices present");
    await plugin("a", "b");
    await kubelet.admitPod(pod("late", 1));
    expect(kubelet.allocateCalls.flatMap(({ ids }) => ids).sort()).toEqual(["a", "b"]);
  });
});
