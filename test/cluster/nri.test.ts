// Our NRI plugin on a real container runtime: whether what the stand-in of a runtime assumes is so.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { silentLogger } from "../../src/logging/logger.ts";
import type { PodSandbox } from "../../src/protocols/nri/messages.ts";
import { type NriHandler, NriPlugin } from "../../src/protocols/nri/nri-plugin.ts";
import { systemClock } from "../../src/sync/clock.ts";
import { type LabRun, openLabRun } from "../machine/lab-run.ts";
import { waitUntil } from "../machine/wait-until.ts";
import { NriRuntime } from "./nri-runtime.ts";

describe.skipIf(process.env["KUBECONFIG"])("a plugin of a real runtime", () => {
  let run: LabRun;
  let runtime: NriRuntime;
  beforeAll(async () => {
    run = await openLabRun({ narrator: { say: (line) => console.log(line) } });
    runtime = new NriRuntime(run);
    await runtime.start();
  });
  afterAll(async () => {
    await run?.close();
  });

  /** Runs a plugin while `work` runs. */
  async function withPlugin(
    work: (plugin: NriPlugin, heard: string[], lists: string[][]) => Promise<void>,
    { name = "cni", ...handler }: Partial<NriHandler> & { readonly name?: string } = {},
  ): Promise<void> {
    const heard: string[] = [];
    const lists: string[][] = [];
    const hear = (verb: string) => async (pod: PodSandbox) =>
      void heard.push(`${verb} ${pod.uid} ${pod.netns === undefined ? "host" : "netns"}`);
    const plugin = new NriPlugin({
      ...{ name, index: "50", socketPath: runtime.nriSocket, clock: systemClock, logger: silentLogger },
      handler: {
        synchronize: async (pods) => void lists.push(pods.map(({ uid }) => uid)),
        ...{ runPodSandbox: hear("Run"), createContainer: hear("Create") },
        ...{ stopPodSandbox: hear("Stop"), removePodSandbox: hear("Remove") },
        ...handler,
      },
    });
    const stop = new AbortController();
    const running = plugin.run(stop.signal);
    try {
      await untilSynchronized(plugin, 1);
      await work(plugin, heard, lists);
    } finally {
      stop.abort();
      await running;
    }
  }
  const untilSynchronized = (plugin: NriPlugin, times: number) =>
    waitUntil(() => plugin.state.synchronized && plugin.state.registrations >= times, {
      what: `the plugin is synchronized for the ${times}. time`,
    });

  it("hears of the life of each sandbox (NRI 1), host-network ones too (NRI 10)", async () => {
    await withPlugin(async (plugin, heard, lists) => {
      expect(plugin.state.runtime).toMatch(new RegExp(`^${runtime.name} `));
      expect(lists).toEqual([[]]);
      const pod = await runtime.runPod({ name: "a", uid: "uid-a" });
      const host = await runtime.runPod({ name: "h", uid: "uid-h", isHostNetwork: true });
      for (const id of [pod, host]) {
        await runtime.stopPod(id);
        await runtime.removePod(id);
      }
      expect(heard.filter((line) => line.includes("uid-a"))).toEqual([
        "Run uid-a netns",
        expect.stringMatching(/^Stop uid-a/),
        expect.stringMatching(/^Remove uid-a/),
      ]);
      // CRI-O gives the host's own network namespace a path.
      expect(heard[1]).toBe(`Run uid-h ${runtime.name === "containerd" ? "host" : "netns"}`);
      expect(plugin.state.registrations).toBe(1);
    });
  });

  it.each([4_000, 4_040, 4_087, 70_000, 4 * 1024 * 1024 - 200])(
    "registers with a message that holds a name of %d bytes (NRI 2)",
    async (size) => {
      await withPlugin(
        async (plugin) => {
          await runtime.removePod(await runtime.runPod({ name: "a", uid: `uid-${size}` }));
          expect(plugin.state.registrations).toBe(1);
        },
        { name: "n".repeat(size) },
      );
    },
  );

  it("fails a pod with its reason", async () => {
    const runPodSandbox = () => Promise.reject(new Error("bridge br1 is missing"));
    await withPlugin(
      async (plugin, heard) => {
        await expect(runtime.runPod({ name: "b", uid: "uid-b" })).rejects.toThrow("bridge br1 is missing");
        expect(heard.map((line) => line.split(" ")[0])).toEqual(["Stop", "Remove"]);
        expect(plugin.state.registrations).toBe(1);
      },
      { runPodSandbox },
    );
  });

  it("that is slow answers code 4 in time; the pod's containers are tried again, not started (NRI 8)", async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    await withPlugin(
      async (plugin) => {
        const pod = { name: "c", uid: "uid-c" };
        const sandbox = await runtime.runPod(pod);
        await expect(runtime.runContainer(sandbox, pod, "one")).rejects.toThrow(
          "CreateContainer takes longer than the container runtime waits",
        );
        resolve();
        await runtime.runContainer(sandbox, pod, "one");
        expect(plugin.state.registrations).toBe(1);
        await runtime.removePod(sandbox);
      },
      { runPodSandbox: () => promise, createContainer: () => promise },
    );
  });

  it("is connected again whenever the runtime restarts (NRI 6); of the end of older sandboxes containerd says nothing", async () => {
    await withPlugin(async (plugin, heard, lists) => {
      const pod = await runtime.runPod({ name: "d", uid: "uid-d" });
      await runtime.restart();
      await untilSynchronized(plugin, 2);
      await runtime.restart();
      await untilSynchronized(plugin, 3);
      expect(lists.at(-1)).toContain("uid-d");
      await runtime.stopPod(pod);
      await runtime.removePod(pod);
      const next = await runtime.runPod({ name: "d", uid: "uid-d", attempt: 1 });
      await runtime.stopPod(next);
      await runtime.removePod(next);
      const older = runtime.name === "containerd" ? [] : ["Stop", "Remove"];
      expect(heard.map((line) => line.split(" ")[0])).toEqual(["Run", ...older, "Run", "Stop", "Remove"]);
    });
  });
});
