import { once } from "node:events";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { status } from "@grpc/grpc-js";
import { pino } from "pino";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { waitUntil } from "../../test/machine/wait-until.ts";
import { StandInKubelet } from "../../test/stand-in/kubelet/kubelet.ts";
import { PluginClient } from "../../test/stand-in/kubelet/plugin-client.ts";
import { Failure } from "../failure/failure.ts";
import { type Logger, silentLogger } from "../logging/logger.ts";
import { type Clock, systemClock } from "../sync/clock.ts";
import type { Allocate } from "./allocate.ts";
import { type DevicePlugin, startDevicePlugin } from "./plugin.ts";
import type { DeviceSource, PluginDevice } from "./pool-devices.ts";

const RESOURCE = "vhostuser/sockets";

/** A source whose list tests replace. */
class ListedDevices implements DeviceSource {
  #devices: readonly PluginDevice[];
  readonly listeners = new Set<() => void>();

  constructor(...ids: readonly string[]) {
    this.#devices = ids.map((id) => ({ id, healthy: true, numaNodes: [] }));
  }

  current(): readonly PluginDevice[] {
    return this.#devices;
  }

  lastUse(id: string): number | undefined {
    return this.#devices.some((device) => device.id === id) ? 0 : undefined;
  }

  subscribe(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  set(devices: readonly PluginDevice[]): void {
    this.#devices = devices;
    for (const listener of this.listeners) listener();
  }
}

let root: string;
let kubelet: StandInKubelet;
const plugins: DevicePlugin[] = [];

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "kubelet-"));
  kubelet = await StandInKubelet.start({ root });
});

afterEach(async () => {
  for (const plugin of plugins.splice(0)) await plugin.close();
  await kubelet.stop();
  await rm(root, { recursive: true, force: true });
});

const answerNothing: Allocate = async () => ({ envs: {}, mounts: [] });

function start(
  devices: DeviceSource,
  options: {
    readonly resource?: string;
    readonly allocate?: Allocate;
    readonly pollMs?: number;
    readonly logger?: Logger;
    readonly clock?: Clock;
  } = {},
): DevicePlugin {
  const plugin = startDevicePlugin({
    resource: RESOURCE,
    kubelet: kubelet.paths,
    devices,
    allocate: answerNothing,
    logger: silentLogger,
    ...options,
  });
  plugins.push(plugin);
  return plugin;
}

const until = (condition: () => boolean, what: string) => waitUntil(condition, { what });

const pod = (name: string, count: number) => ({
  namespace: "default",
  name,
  containers: [{ name: "compute", resources: { [RESOURCE]: count } }],
});

describe("a device plugin", () => {
  it("registers, lists its devices, and answers Allocate with environment and mounts", async () => {
    const asked: (readonly string[])[] = [];
    start(new ListedDevices("a-00000", "a-00001", "a-00002"), {
      allocate: async (ids) => {
        asked.push(ids);
        return {
          envs: { DEVICES: ids.join() },
          mounts: [{ container_path: "/var/run/vhostuser/a", host_path: root, read_only: false }],
        };
      },
    });
    await kubelet.waitForAllocatable(RESOURCE, 3);
    const admission = await kubelet.admitPod(pod("vm", 2));
    if (admission.phase !== "Running") throw new Error(admission.message);
    const ids = admission.containers[0]?.deviceIds[RESOURCE];
    expect(asked).toEqual([ids]);
    expect(new Set(ids).size).toBe(2);
    expect(admission.containers).toEqual([
      {
        name: "compute",
        deviceIds: { [RESOURCE]: ids },
        envs: { DEVICES: ids?.join() },
        mounts: [{ containerPath: "/var/run/vhostuser/a", hostPath: root, readOnly: false }],
        annotations: {},
      },
    ]);
  });

  it("sends the list again when the source changes: unhealthy, gone, back", async () => {
    const devices = new ListedDevices("a-00000", "a-00001");
    start(devices);
    await kubelet.waitForAllocatable(RESOURCE, 2);
    const [first, second] = devices.current();
    if (first === undefined || second === undefined) throw new Error("two devices");
    devices.set([{ ...first, healthy: false }, second]);
    await kubelet.waitForAllocatable(RESOURCE, 1);
    expect(kubelet.capacity(RESOURCE)).toEqual({ capacity: 2, allocatable: 1 });
    devices.set([]);
    await kubelet.waitForAllocatable(RESOURCE, 0);
    expect(kubelet.capacity(RESOURCE)).toEqual({ capacity: 0, allocatable: 0 });
    devices.set([first, second]);
    await kubelet.waitForAllocatable(RESOURCE, 2);
    expect(kubelet.registrations).toHaveLength(1);
  });

  it("registers again after a restart of kubelet, which deleted its socket, and gives the next pod a free device", async () => {
    start(new ListedDevices("a-00000", "a-00001"));
    await kubelet.waitForAllocatable(RESOURCE, 2);
    await kubelet.admitPod(pod("before", 1));
    await kubelet.restart();
    await kubelet.waitForAllocatable(RESOURCE, 2);
    expect(await kubelet.admitPod(pod("after", 1))).toMatchObject({ phase: "Running" });
    expect(await kubelet.admitPod(pod("one-too-many", 1))).toMatchObject({ phase: "Failed" });
    expect(kubelet.allocateCalls).toHaveLength(2);
  });

  it("registers again after each of many restarts, whether kubelet was down for a moment or for longer", async () => {
    start(new ListedDevices("a-00000"));
    await kubelet.waitForAllocatable(RESOURCE, 1);
    for (const downMs of [0, 300, 0, 20, 0]) {
      await kubelet.restart({ downMs });
      await kubelet.waitForAllocatable(RESOURCE, 1);
    }
    // Kubelet may delete the socket between the check and the call; without a check each call would be refused.
    const refusals = kubelet.registrations.flatMap(({ error }) => error ?? []);
    for (const reason of refusals) expect(reason).toMatch(/^failed to dial device plugin: no .*\.sock$/);
    expect(refusals.length).toBeLessThan(5);
  });

  it("waits for a kubelet that is not there, even for its directory", async () => {
    await kubelet.stop();
    await rm(root, { recursive: true, force: true });
    const lines: string[] = [];
    const logger = pino({ level: "warn" }, { write: (line) => void lines.push(line) });
    start(new ListedDevices("a-00000"), { pollMs: 50, logger });
    await until(() => lines.some((line) => line.includes("kubelet is not there")), "a failed attempt");
    await kubelet.start();
    await kubelet.waitForAllocatable(RESOURCE, 1);
  });

  it("listens again when only its socket was deleted", async () => {
    start(new ListedDevices("a-00000"));
    await kubelet.waitForAllocatable(RESOURCE, 1);
    const name = kubelet.registrations[0]?.endpoint ?? "";
    await rm(join(kubelet.paths.pluginDirectory, name));
    await until(() => kubelet.registrations.length > 1, "a second registration");
    await kubelet.waitForAllocatable(RESOURCE, 1);
    expect(await readdir(kubelet.paths.pluginDirectory)).toContain(name);
    expect(await kubelet.admitPod(pod("vm", 1))).toMatchObject({ phase: "Running" });
  });

  it("registers at a new kubelet.sock, even when its own socket was left in place", async () => {
    start(new ListedDevices("a-00000"));
    await kubelet.waitForAllocatable(RESOURCE, 1);
    await kubelet.replaceSocket();
    await until(() => kubelet.registrations.length > 1, "a second registration");
    await kubelet.waitForAllocatable(RESOURCE, 1);
    expect(await kubelet.admitPod(pod("vm", 1))).toMatchObject({ phase: "Running" });
  });

  it("registers again when kubelet cuts its stream", async () => {
    start(new ListedDevices("a-00000"));
    await kubelet.waitForAllocatable(RESOURCE, 1);
    kubelet.cutPlugin(RESOURCE);
    await until(() => kubelet.registrations.length > 1, "a second registration");
    await kubelet.waitForAllocatable(RESOURCE, 1);
  });

  it("runs beside another resource's plugin in one directory, through a restart", async () => {
    const other = "vhostuser/dataplane";
    start(new ListedDevices("a-00000", "a-00001"));
    start(new ListedDevices("dataplane-00000"), { resource: other });
    await kubelet.waitForAllocatable(RESOURCE, 2);
    await kubelet.waitForAllocatable(other, 1);
    await kubelet.restart();
    await kubelet.waitForAllocatable(RESOURCE, 2);
    await kubelet.waitForAllocatable(other, 1);
    expect(new Set(kubelet.registrations.map(({ endpoint }) => endpoint)).size).toBe(2);
  });

  it("fails a pod's admission with the failure's text, and serves the next pod", async () => {
    let full = true;
    start(new ListedDevices("a-00000"), {
      allocate: async (...call) => {
        if (full) throw new Failure({ code: "directory-unsafe", what: "the root is full", fix: "make room" });
        return answerNothing(...call);
      },
    });
    await kubelet.waitForAllocatable(RESOURCE, 1);
    const admission = await kubelet.admitPod(pod("vm", 1));
    expect(admission).toMatchObject({ phase: "Failed", reason: "UnexpectedAdmissionError" });
    expect(admission.phase === "Failed" && admission.message).toContain("the root is full; make room");
    full = false;
    expect(await kubelet.admitPod(pod("vm", 1))).toMatchObject({ phase: "Running" });
  });

  it("leaves no socket and no healthy device when closed", async () => {
    const plugin = start(new ListedDevices("a-00000"));
    await kubelet.waitForAllocatable(RESOURCE, 1);
    await plugin.close();
    await kubelet.waitForAllocatable(RESOURCE, 0);
    expect(kubelet.capacity(RESOURCE)).toEqual({ capacity: 1, allocatable: 0 });
    expect((await readdir(kubelet.paths.pluginDirectory)).filter((name) => name.endsWith(".sock"))).toEqual([
      "kubelet.sock",
    ]);
  });

  it.each([
    { what: "lets a running Allocate finish before it closes", graceMs: 10_000, isAnswered: true },
    { what: "closes though an Allocate hangs", graceMs: 0, isAnswered: false },
  ])("$what", async ({ graceMs, isAnswered }) => {
    const asked = Promise.withResolvers<void>();
    const answer = Promise.withResolvers<void>();
    const waiting = Promise.withResolvers<void>();
    const plugin = start(new ListedDevices("a-00000"), {
      allocate: async () => {
        asked.resolve();
        await answer.promise;
        return { envs: { ANSWER: "late" }, mounts: [] };
      },
      clock: {
        ...systemClock,
        sleep: (ms, signal) => {
          if (ms !== 2_000) return systemClock.sleep(ms, signal);
          waiting.resolve();
          return systemClock.sleep(graceMs, signal);
        },
      },
    });
    await kubelet.waitForAllocatable(RESOURCE, 1);
    const admission = kubelet.admitPod(pod("vm", 1));
    await asked.promise;
    const closed = plugin.close();
    await waiting.promise;
    if (isAnswered) answer.resolve();
    await closed;
    // Cut off, and not at kubelet's own deadline.
    const failed = { phase: "Failed", message: expect.not.stringContaining("DEADLINE_EXCEEDED") };
    expect(await admission).toMatchObject(isAnswered ? { phase: "Running" } : failed);
    answer.resolve();
  });

  it("signals an Allocate that it cuts off, and is closed when that has removed what it made", async () => {
    const ends: string[] = [];
    const asked = Promise.withResolvers<void>();
    let waits = 0;
    const plugin = start(new ListedDevices("a-00000"), {
      allocate: async (_ids, signal) => {
        asked.resolve();
        await once(signal, "abort");
        await delay(100);
        ends.push("removed");
        throw signal.reason;
      },
      clock: {
        ...systemClock,
        sleep: (ms, signal) => systemClock.sleep(ms === 2_000 && waits++ === 0 ? 0 : ms, signal),
      },
    });
    await kubelet.waitForAllocatable(RESOURCE, 1);
    const admission = kubelet.admitPod(pod("vm", 1));
    await asked.promise;
    await plugin.close().then(() => ends.push("closed"));
    expect((await admission).phase).toBe("Failed");
    expect(ends).toEqual(["removed", "closed"]);
  });

  it("closes while kubelet is down", async () => {
    await kubelet.stop();
    const plugin = start(new ListedDevices("a-00000"));
    await plugin.close();
    expect(plugin.registered).toBe(false);
  });

  it("refuses devices that it did not list, an empty and a doubled list, and does not allocate for them", async () => {
    let allocated = 0;
    start(new ListedDevices("a-00000"), {
      allocate: (...call) => {
        allocated++;
        return answerNothing(...call);
      },
    });
    await kubelet.waitForAllocatable(RESOURCE, 1);
    const socket = join(kubelet.paths.pluginDirectory, kubelet.registrations[0]?.endpoint ?? "");
    const client = await PluginClient.connect(socket, 30_000);
    try {
      for (const [ids, says] of [
        [["a-00000", "b-00007"], 'not on this node: "b-00007"'],
        [[], "no device at all"],
        [["a-00000", "a-00000"], "one device twice"],
      ] as const) {
        await expect(client.allocate(ids)).rejects.toMatchObject({
          code: status.INVALID_ARGUMENT,
          details: expect.stringContaining(says),
        });
      }
      expect(allocated).toBe(0);
    } finally {
      client.close();
    }
  });

  it("refuses a directory whose name is too long for a socket", async () => {
    const kubeletPaths = { ...kubelet.paths, pluginDirectory: `/${"d".repeat(100)}` };
    expect(() =>
      startDevicePlugin({
        resource: RESOURCE,
        kubelet: kubeletPaths,
        devices: new ListedDevices(),
        allocate: answerNothing,
        logger: silentLogger,
      }),
    ).toThrow("107");
  });
});
