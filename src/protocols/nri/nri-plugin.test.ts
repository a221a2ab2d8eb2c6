import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { waitUntil } from "../../../test/machine/wait-until.ts";
import { ManualClock } from "../../../test/stand-in/manual-clock.ts";
import {
  NRI_VERSIONS,
  Runtime,
  type RuntimeHabits,
  type RuntimePod,
  type Started,
} from "../../../test/stand-in/nri/runtime.ts";
import { loadService } from "../../grpc/load-service.ts";
import { silentLogger } from "../../logging/logger.ts";
import { type Clock, systemClock } from "../../sync/clock.ts";
import type { PodSandbox } from "./messages.ts";
import { type NriHandler, NriPlugin } from "./nri-plugin.ts";

const ttrpc = loadService("nri/ttrpc.proto", "ttrpc.Messages").definition["Call"];

let directory: string;
let stack: AsyncDisposableStack;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "kvu-nri-"));
  stack = new AsyncDisposableStack();
});
afterEach(async () => {
  await stack.disposeAsync();
  await rm(directory, { recursive: true });
});

const podOf = (id: string, more: Partial<RuntimePod> = {}): RuntimePod => ({
  ...{ id, name: `pod-${id}`, namespace: "default", uid: `uid-${id}`, netns: `/run/netns/${id}` },
  ...more,
});

async function startRuntime(habits: RuntimeHabits = {}): Promise<Runtime> {
  const runtime = new Runtime(join(directory, "nri.sock"), habits);
  await runtime.listen();
  stack.defer(() => runtime.close());
  return runtime;
}

/** A plugin that remembers what it heard. */
function startPlugin(
  handler: Partial<NriHandler> = {},
  { name = "cni", clock = systemClock }: { readonly name?: string; readonly clock?: Clock } = {},
) {
  const heard: string[] = [];
  const hear = (verb: string) => async (pod: PodSandbox) =>
    void heard.push(`${verb} ${pod.id} ${pod.netns ?? "-"}`);
  const plugin = new NriPlugin({
    ...{ name, index: "50", socketPath: join(directory, "nri.sock"), clock, logger: silentLogger },
    handler: {
      synchronize: async (pods) => void heard.push(`Synchronize ${pods.map(({ id }) => id).join(" ")}`),
      ...{ runPodSandbox: hear("Run"), createContainer: hear("Create") },
      ...{ stopPodSandbox: hear("Stop"), removePodSandbox: hear("Remove") },
      ...handler,
    },
  });
  const stop = new AbortController();
  const running = plugin.run(stop.signal);
  stack.defer(async () => {
    stop.abort();
    await running;
  });
  return { plugin, heard };
}

const ready = (runtime: Runtime) => waitUntil(() => runtime.isReady, { what: "the plugin is synchronized" });
/** Moves a clock until something has happened. */
const passUntil = (clock: ManualClock, poll: () => boolean, what: string) =>
  waitUntil(
    async () => {
      if (poll()) return true;
      await clock.advance(100);
      return false;
    },
    { what, everyMs: 1 },
  );

describe.each(["containerd", "cri-o"] as const)("with %s", (kind) => {
  it.each(NRI_VERSIONS)("both dialects work: NRI %s (NRI 1)", async (nri) => {
    const netnsDirectory = join(directory, "netns");
    const runtime = await startRuntime({ kind, nri, netnsDirectory, configuresFirst: true });
    const { plugin, heard } = startPlugin();
    await ready(runtime);
    expect(await runtime.run(podOf("a"))).toEqual({ started: true, byPlugin: true });
    expect(await runtime.run(podOf("host", { netns: undefined }))).toEqual({ started: true, byPlugin: true });
    expect(await runtime.runContainer("a")).toEqual({ started: true, byPlugin: true });
    await runtime.stop("a");
    await runtime.remove("a");
    const atStop = kind === "cri-o" || nri === "0.11" || nri === "0.12" ? "/run/netns/a" : "-";
    expect(heard).toEqual([
      ...["Synchronize ", "Run a /run/netns/a", "Run host -", "Create a /run/netns/a"],
      ...[`Stop a ${atStop}`, "Remove a -"],
    ]);
    const [stopped, removed] = ["StopPodSandbox a: ok", "CNI DEL a"];
    expect(runtime.steps.filter((step) => step.includes(" a"))).toEqual([
      ...["CNI ADD a", "RunPodSandbox a: ok", "CreateContainer a: ok"],
      ...(kind === "cri-o" ? [removed, stopped] : [stopped, removed]),
      "RemovePodSandbox a: ok",
    ]);
    expect(runtime.registered).toEqual([{ name: "cni", index: "50" }]);
    expect(plugin.state).toEqual({
      ...{ registered: true, synchronized: true, registrations: 1 },
      runtime: `${kind} v0.0.0-stand-in`,
    });
    expect(runtime.closed).toEqual([]);
  });
});

describe("bytes", () => {
  it.each([4_000, 4_086, 4_087, 70_000, 4 * 1024 * 1024 - 200])(
    "of messages with a text of %d pass both ways, and no runtime dies (NRI 2)",
    async (size) => {
      const runtime = await startRuntime({ config: "c".repeat(size) });
      startPlugin({}, { name: "n".repeat(size) });
      await ready(runtime);
      expect(runtime.registered[0]?.name).toHaveLength(size);
      expect(runtime.closed).toEqual([]);
    },
  );

  it("may come one by one", async () => {
    const runtime = await startRuntime({ cut: (bytes) => Array.from(bytes, (byte) => Buffer.from([byte])) });
    const { heard } = startPlugin();
    await ready(runtime);
    await runtime.run(podOf("a"));
    expect(heard).toContain("Run a /run/netns/a");
  });

  it("that end in the middle of a frame end the connection, and another is made", async () => {
    const runtime = await startRuntime();
    const { plugin } = startPlugin();
    await ready(runtime);
    runtime.connection?.sendRaw(Buffer.from([0, 0, 0, 1, 0, 0]));
    runtime.connection?.close("cut");
    await waitUntil(() => plugin.state.registrations === 2, { what: "it is registered again" });
    await ready(runtime);
  });

  it("that are no NRI end the connection, and another is made", async () => {
    const runtime = await startRuntime();
    const { plugin } = startPlugin();
    await ready(runtime);
    runtime.connection?.sendRaw(Buffer.alloc(64, 0xff));
    await waitUntil(() => plugin.state.registrations === 2, { what: "it is registered again" });
  });
});

describe("calls that a plugin does not know", () => {
  const raw = async (runtime: Runtime, request: object) => {
    const answer = ttrpc?.responseDeserialize(
      (await runtime.connection?.callRaw(request)) ?? Buffer.alloc(0),
    );
    return answer.status;
  };
  const service = "nri.pkg.api.v1alpha1.Plugin";

  it("get code 12, and the connection lives (NRI 4)", async () => {
    const runtime = await startRuntime();
    const { heard } = startPlugin();
    await ready(runtime);
    for (const request of [
      { service, method: "UpdateContainer" },
      { service, method: "toString" },
      { service: "other", method: "RunPodSandbox" },
    ])
      expect(await raw(runtime, request)).toMatchObject({ code: 12 });
    for (const payload of [Buffer.from([0x0a, 0x7f]), Buffer.alloc(0)])
      expect(await raw(runtime, { service, method: "RunPodSandbox", payload })).toMatchObject({ code: 3 });
    const containerEvent = { service, method: "StateChange", payload: Buffer.from([0x08, 0x06]) };
    expect(await raw(runtime, containerEvent)).toBeNull();
    expect(await raw(runtime, { service, method: "Shutdown" })).toBeNull();
    await runtime.run(podOf("a"));
    expect(heard).toContain("Run a /run/netns/a");
    expect(runtime.closed).toEqual([]);
  });
});

describe("a hook", () => {
  it("that fails fails the pod with its reason, and the plugin stays", async () => {
    const runtime = await startRuntime();
    const { heard } = startPlugin({
      runPodSandbox: () => Promise.reject(new Error("bridge br1 is missing")),
    });
    await ready(runtime);
    expect(await runtime.run(podOf("a"))).toEqual({
      started: false,
      reason: "internal: bridge br1 is missing",
    });
    expect(heard.slice(1)).toEqual(["Stop a /run/netns/a", "Remove a /run/netns/a"]);
    expect(runtime.closed).toEqual([]);
  });

  it("that is slow answers code 4 in time; its pod's containers are tried again, not started (NRI 8)", async () => {
    const clock = new ManualClock();
    const runtime = await startRuntime({ clock, nri: "0.8" });
    const { promise, resolve } = Promise.withResolvers<void>();
    const work = () => promise;
    const { plugin } = startPlugin({ runPodSandbox: work, createContainer: work }, { clock });
    await ready(runtime);
    const outcomeOf = async (call: Promise<Started>) => {
      let started: Started | undefined;
      void call.then((outcome) => (started = outcome));
      await passUntil(clock, () => started !== undefined, "the hook is answered");
      return started;
    };
    // The sandbox starts, and waits for no container.
    expect(await outcomeOf(runtime.run(podOf("a")))).toEqual({ started: true, byPlugin: true });
    expect(await outcomeOf(runtime.runContainer("a"))).toEqual({
      started: false,
      reason: expect.stringMatching(/^busy: CreateContainer takes longer .*default\/pod-a/),
    });
    expect(runtime.steps.at(-1)).toBe("CreateContainer a: 4");
    resolve();
    expect(await outcomeOf(runtime.runContainer("a"))).toEqual({ started: true, byPlugin: true });
    expect([runtime.closed, plugin.state.registrations]).toEqual([[], 1]);
  });

  it("of a plugin that has no time costs the pod nothing, and the plugin registers again", async () => {
    const [own, clock] = [new ManualClock(), new ManualClock()];
    const runtime = await startRuntime({ clock });
    const { plugin } = startPlugin({ runPodSandbox: () => new Promise(() => undefined) }, { clock: own });
    await ready(runtime);
    const started = runtime.run(podOf("a"));
    let outcome: unknown;
    void started.then((value) => (outcome = value));
    await passUntil(clock, () => outcome !== undefined, "the runtime gives up");
    expect(outcome).toEqual({ started: true, byPlugin: false });
    expect(runtime.closed).toEqual(["RunPodSandbox: context deadline exceeded"]);
    await passUntil(own, () => plugin.state.registrations === 2, "it registers again");
  });
});

describe("the list of sandboxes", () => {
  it("that is paged gives one view (NRI 5)", async () => {
    const runtime = await startRuntime({ pageSize: 2 });
    for (const id of ["a", "b", "c", "d", "e"]) await runtime.run(podOf(id));
    const { heard } = startPlugin();
    await ready(runtime);
    expect(heard).toEqual(["Synchronize a b c d e"]);
  });

  it("may take long: the runtime is answered meanwhile, and hooks come", async () => {
    const clock = new ManualClock();
    const runtime = await startRuntime({ clock });
    const { promise, resolve } = Promise.withResolvers<void>();
    const { plugin, heard } = startPlugin({ synchronize: () => promise }, { clock });
    await passUntil(clock, () => runtime.isReady, "the runtime has its answer");
    expect(plugin.state).toMatchObject({ registered: true, synchronized: false });
    await runtime.run(podOf("a"));
    expect(heard).toEqual(["Run a /run/netns/a"]);
    resolve();
    await waitUntil(() => plugin.state.synchronized, { what: "the plugin has all sandboxes" });
  });

  it("is sent again after an error", async () => {
    const clock = new ManualClock();
    const runtime = await startRuntime({ clock });
    let tries = 0;
    const synchronize = async () => {
      tries += 1;
      if (tries < 3) throw new Error("the disk is full");
    };
    const { plugin } = startPlugin({ synchronize }, { clock });
    await passUntil(clock, () => plugin.state.synchronized && runtime.isReady, "it is synchronized");
    expect(plugin.state.registrations).toBe(3);
  });
});

describe("a connection", () => {
  it("is made again within 2 s after the runtime restarts, for ever, and where there is no socket (NRI 6)", async () => {
    const clock = new ManualClock();
    const { plugin, heard } = startPlugin({}, { clock });
    await clock.advance(60_000);
    expect(plugin.state).toEqual({
      ...{ registered: false, synchronized: false, registrations: 0 },
      runtime: undefined,
    });
    const runtime = await startRuntime({ clock });
    for (let count = 1; count <= 20; count += 1) {
      await passUntil(clock, () => runtime.isReady, `registration ${count}`);
      expect(plugin.state.registrations).toBe(count);
      await runtime.run(podOf(`pod${count}`));
      const restartedAt = clock.now();
      await runtime.restart();
      await passUntil(clock, () => runtime.isReady, "it is back");
      expect(clock.now() - restartedAt).toBeLessThanOrEqual(2_000);
      // containerd tells no plugin of the end of a sandbox that it found when it started.
      await runtime.stop(`pod${count}`);
    }
    expect(heard.filter((line) => line.startsWith("Stop"))).toEqual([]);
  });

  it("to a runtime that refuses the plugin is tried less and less often", async () => {
    const clock = new ManualClock();
    const runtime = await startRuntime({ clock });
    startPlugin({}, { clock, name: "not valid" });
    const tries = () => runtime.closed.length;
    await passUntil(clock, () => tries() === 8, "it is refused some times");
    expect(runtime.closed).toContain("invalid plugin name: not valid");
    expect(clock.now()).toBeGreaterThan(60_000);
  });
});
