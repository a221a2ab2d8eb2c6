import { spawn } from "node:child_process";
import { once } from "node:events";
import { access, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { parseConfig } from "../config/load.ts";
import { takeOwnership } from "../files/owner-lock.ts";
import { type Logger, silentLogger } from "../logging/logger.ts";
import { systemClock } from "../sync/clock.ts";
import { startDaemon } from "./assemble.ts";

let directory: string;
let recordsDirectory: string;
let configFile: string;
let text: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "kvu-stop-"));
  recordsDirectory = join(directory, "records");
  configFile = join(directory, "config.json");
  await mkdir(join(directory, "root"));
  text = JSON.stringify({
    node: "n",
    root: join(directory, "root"),
    rootFileSystem: { allowInsecure: true },
    recordsDirectory,
    cniSocket: join(directory, "cni.sock"),
    deviceInfoDirectory: join(directory, "devinfo"),
    kubelet: { devicePlugins: directory, podResources: join(directory, "pods.sock") },
    observe: { address: "127.0.0.1", port: 0 },
    pools: {
      sockets: {
        resource: "vhostuser/sockets",
        capacity: 1,
        dataplane: { type: "ovs-dpdk", database: join(directory, "db.sock"), bridge: "br" },
      },
    },
  });
  await writeFile(configFile, text);
});
afterEach(() => rm(directory, { recursive: true }));

it("a daemon whose start fails at one pool stops also the pool that starts beside it", async () => {
  // Connected to, and silent: the probe of this pool is waited for.
  const silent = createServer();
  await once(silent.listen(join(directory, "silent.sock")), "listening");
  const pool = (name: string, database: string) => ({
    ...{ resource: `vhostuser/${name}`, capacity: 1 },
    dataplane: { type: "ovs-dpdk", database: join(directory, database), bridge: "br" },
  });
  // Of these the first has a plugin socket whose path is too long.
  const pools = {
    "with-a-long-name": pool("with-a-long-name", "none.sock"),
    a: pool("a", "silent.sock"),
  };
  const devicePlugins = join(directory, "p".repeat(79 - directory.length));
  await mkdir(devicePlugins);
  const kubelet = { devicePlugins, podResources: join(directory, "pods.sock") };
  let sleeping = 0;
  const sleep = (ms: number, signal?: AbortSignal) => {
    sleeping += 1;
    return systemClock.sleep(ms, signal).finally(() => {
      sleeping -= 1;
    });
  };
  const starting = startDaemon({
    config: parseConfig(JSON.stringify({ ...JSON.parse(text), kubelet, pools }), configFile),
    ownPod: undefined,
    version: "0",
    logger: silentLogger,
    clock: { ...systemClock, sleep },
    signal: new AbortController().signal,
  });
  try {
    await expect(starting).rejects.toMatchObject({ code: "path-too-long" });
    expect(sleeping).toBe(0);
  } finally {
    silent.close();
  }
});

describe("a daemon that gets a signal while it starts", () => {
  it("ends cleanly at once, though another daemon owns the records", async () => {
    const owner = await takeOwnership(recordsDirectory, systemClock);
    const daemon = spawn(process.execPath, [join(import.meta.dirname, "main.ts"), "--config", configFile], {
      stdio: ["ignore", "pipe", "pipe"],
    });
    try {
      let log = "";
      const isWaiting = Promise.withResolvers<void>();
      daemon.stdout.setEncoding("utf8").on("data", (lines: string) => {
        log += lines;
        // The last word before the records.
        if (log.includes("the root is not safe")) isWaiting.resolve();
      });
      const ended = once(daemon, "close");
      await Promise.race([isWaiting.promise, ended]);
      daemon.kill("SIGTERM");
      // After ten seconds of waiting for the records it would end with 1.
      expect(await ended).toEqual([0, null]);
      expect(log).toContain('"signal":"SIGTERM"');
    } finally {
      daemon.kill("SIGKILL");
      owner.release();
    }
  });

  it("ends cleanly also while its modules are still being loaded", async () => {
    // As process 1 it would not get the signal; here it would die of the signal.
    const hook = `import { registerHooks } from "node:module";
      registerHooks({ load: (url, context, next) => {
        if (url.endsWith("/daemon/assemble.ts")) process.kill(process.pid, "SIGTERM");
        return next(url, context);
      } });`;
    const program = join(import.meta.dirname, "main.ts");
    const options = ["--import", `data:text/javascript,${encodeURIComponent(hook)}`];
    // Where it reads its configuration it ends with 1.
    const daemon = spawn(process.execPath, [...options, program, "--config", join(directory, "none")]);
    expect(await once(daemon, "close")).toEqual([0, null]);
  });

  it("stops what had started, and starts nothing else", async () => {
    const stop = new AbortController();
    let url = "";
    const logger = {
      ...silentLogger,
      info: (fields: { url?: string }) => {
        if (fields.url === undefined) return;
        url = fields.url;
        stop.abort("SIGTERM");
      },
      warn: () => undefined,
    } as unknown as Logger;
    const starting = startDaemon({
      config: parseConfig(text, configFile),
      ownPod: undefined,
      version: "0",
      logger,
      clock: systemClock,
      signal: stop.signal,
    });
    await expect(starting).rejects.toBe("SIGTERM");
    await expect(fetch(`${url}/livez`)).rejects.toThrow();
    await expect(access(join(directory, "cni.sock"))).rejects.toThrow(/ENOENT/);
    (await takeOwnership(recordsDirectory, systemClock)).release();
  });
});
