import { mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { StandInDraManager } from "../../test/stand-in/kubelet/dra-manager.ts";
import { ManualClock } from "../../test/stand-in/manual-clock.ts";
import { Failure } from "../failure/failure.ts";
import { silentLogger } from "../logging/logger.ts";
import { systemClock } from "../sync/clock.ts";
import { type DraPlugin, type DraPluginOptions, startDraPlugin } from "./dra-plugin.ts";
import type { ClaimReference, DeviceHealth } from "./dra-service.ts";

const DRIVER = "example.test.io";
const UID = "6d5a12f7-1c9b-4d0e-9f57-0f1f3b7f5d10";

let directory: string;
let kubelet: StandInDraManager;
let plugin: DraPlugin | undefined;
let health: DeviceHealth[];
const called: string[] = [];
let prepare: (claim: ClaimReference, signal: AbortSignal) => Promise<void>;

const registry = () => join(directory, "plugins_registry");
const own = () => join(directory, "plugins", DRIVER);
const claim = (name: string) => ({ namespace: "ns", name, uid: `uid-${name}` });

function start(changes: Partial<DraPluginOptions> = {}): DraPlugin {
  plugin = startDraPlugin({
    driver: DRIVER,
    registryDirectory: registry(),
    pluginDirectory: own(),
    podUid: UID,
    calls: {
      prepare: async (claim, signal) => {
        called.push(`prepare ${claim.namespace}/${claim.name} ${claim.uid}`);
        await prepare(claim, signal);
        return [
          {
            request_names: ["net"],
            pool_name: "node",
            device_name: "sockets",
            cdi_device_ids: [`v/c=${claim.uid}`],
            share_id: "share",
          },
        ];
      },
      unprepare: async ({ name }) => {
        called.push(`unprepare ${name}`);
      },
    },
    health: () => [...health],
    clock: systemClock,
    logger: silentLogger,
    ...changes,
  });
  return plugin;
}

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "dra-"));
  await mkdir(registry());
  kubelet = new StandInDraManager(registry());
  kubelet.start();
  health = [{ pool: "node", device: "sockets", healthy: true }];
  called.length = 0;
  prepare = async () => undefined;
});
afterEach(async () => {
  await kubelet.stop();
  await plugin?.close();
  plugin = undefined;
  await rm(directory, { recursive: true });
});

describe("a DRA driver", () => {
  it("is registered by kubelet, which prefers v1 and gets share IDs by it", async () => {
    start();
    await kubelet.waitForDriver(DRIVER);
    expect(kubelet.versionOf(DRIVER)).toBe("v1.DRAPlugin");
    expect(await kubelet.prepare("pod", DRIVER, [claim("a")])).toEqual([
      {
        request_names: ["net"],
        pool_name: "node",
        device_name: "sockets",
        cdi_device_ids: ["v/c=uid-a"],
        share_id: "share",
      },
    ]);
    await kubelet.unprepare("pod", DRIVER);
    expect(called).toEqual(["prepare ns/a uid-a", "unprepare a"]);
    await expect.poll(() => [plugin?.registered, plugin?.registrations]).toEqual([true, 1]);
  });

  it("serves a kubelet that knows v1beta1 only", async () => {
    await kubelet.stop();
    kubelet = new StandInDraManager(registry(), ["v1beta1.DRAPlugin"]);
    kubelet.start();
    start();
    await kubelet.waitForDriver(DRIVER);
    const [device] = await kubelet.prepare("pod", DRIVER, [claim("a")]);
    expect(device).toEqual({
      request_names: ["net"],
      pool_name: "node",
      device_name: "sockets",
      cdi_device_ids: ["v/c=uid-a"],
    });
  });

  it("says that kubelet refused it", async () => {
    await kubelet.stop();
    kubelet = new StandInDraManager(registry(), ["v2.DRAPlugin"]);
    kubelet.start();
    const { promise, resolve } = Promise.withResolvers<string>();
    start({ logger: { ...silentLogger, error: (_fields: unknown, text?: string) => resolve(text ?? "") } });
    expect(await promise).toBe("kubelet refused the registration");
    expect(plugin?.registered).toBe(false);
  });

  it("is registered again when kubelet restarts, and when its sockets were removed", async () => {
    start();
    await kubelet.waitForDriver(DRIVER);
    await kubelet.stop();
    kubelet.start();
    await kubelet.waitForDriver(DRIVER);
    await expect.poll(() => plugin?.registrations).toBe(2);
    for (const name of await readdir(registry())) await rm(join(registry(), name));
    await expect.poll(() => plugin?.registrations).toBe(3);
    expect(await kubelet.prepare("pod", DRIVER, [claim("a")])).toHaveLength(1);
  });

  it("is registered when kubelet's directory is there in the end", async () => {
    await rm(registry(), { recursive: true });
    const { promise, resolve } = Promise.withResolvers<unknown>();
    start({ logger: { ...silentLogger, warn: (fields: unknown) => resolve(fields) } });
    expect(await promise).toMatchObject({ reason: expect.stringMatching(/plugins_registry and plugins/) });
    await mkdir(registry());
    await kubelet.waitForDriver(DRIVER);
  });

  it("answers every claim of a call, the failed with its error", async () => {
    prepare = async ({ name }) => {
      if (name === "b")
        throw new Failure({ code: "bridge-missing", what: "no bridge", where: "b", fix: "make it" });
    };
    start();
    await kubelet.waitForDriver(DRIVER);
    await expect(kubelet.prepare("pod", DRIVER, ["a", "b", "c"].map(claim))).rejects.toThrow(
      "NodePrepareResources failed for claim uid-b: bridge-missing: no bridge (b); make it",
    );
    expect(called).toEqual(["a", "b", "c"].map((name) => `prepare ns/${name} uid-${name}`));
  });

  it("does calls of one claim one after the other, and of others meanwhile", async () => {
    const hang = Promise.withResolvers<void>();
    prepare = ({ name }) => (name === "a" ? hang.promise : Promise.resolve());
    start();
    await kubelet.waitForDriver(DRIVER);
    const first = kubelet.prepare("pod", DRIVER, [claim("a")]);
    await expect.poll(() => called).toEqual(["prepare ns/a uid-a"]);
    const unprepared = kubelet.unprepare("pod", DRIVER);
    await kubelet.prepare("other", DRIVER, [claim("b")]);
    expect(called).toEqual(["prepare ns/a uid-a", "prepare ns/b uid-b"]);
    hang.resolve();
    await Promise.all([first, unprepared]);
    expect(called.at(-1)).toBe("unprepare a");
  });

  it("sends health when it changes, and again before kubelet takes it for unknown", async () => {
    const clock = new ManualClock(5_000);
    start({ clock });
    await kubelet.waitForDriver(DRIVER);
    const sent = (health: number, last_updated_time: number, message = "") => [
      {
        device: { pool_name: "node", device_name: "sockets" },
        ...{ health, last_updated_time, message, health_check_timeout_seconds: 30 },
      },
    ];
    await expect.poll(() => kubelet.health).toEqual(sent(1, 5));
    health = [{ pool: "node", device: "sockets", healthy: false, message: "no switch" }];
    plugin?.healthChanged();
    await expect.poll(() => kubelet.health).toEqual(sent(2, 5, "no switch"));
    await clock.advance(10_000);
    await expect.poll(() => kubelet.health).toEqual(sent(2, 15, "no switch"));
  });

  it("removes what killed instances left, and leaves other drivers' sockets", async () => {
    await mkdir(own(), { recursive: true });
    const left = [`${DRIVER}-old-reg.sock`, `${DRIVER}-reg.sock`, `${DRIVER}2-reg.sock`, "other-reg.sock"];
    for (const name of left) await writeFile(join(registry(), name), "");
    await writeFile(join(own(), "dra-old.sock"), "");
    await writeFile(join(own(), "kept.json"), "");
    start();
    await kubelet.waitForDriver(DRIVER);
    expect((await readdir(registry())).sort()).toEqual(
      [`${DRIVER}-${UID}-reg.sock`, `${DRIVER}2-reg.sock`, "other-reg.sock"].sort(),
    );
    expect((await readdir(own())).sort()).toEqual([`dra-${UID}.sock`, "kept.json"]);
  });

  it("ends calls that hang when it is closed, and takes its sockets away", async () => {
    prepare = (_claim, signal) =>
      new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    const clock = new ManualClock();
    start({ clock });
    await kubelet.waitForDriver(DRIVER);
    const failed = expect(kubelet.prepare("pod", DRIVER, [claim("a")])).rejects.toThrow("the daemon stops");
    await expect.poll(() => called).toHaveLength(1);
    const closed = plugin?.close();
    await expect.poll(() => clock.pending.includes(2_000)).toBe(true);
    await clock.advance(2_000);
    await Promise.all([failed, closed]);
    plugin = undefined;
    expect([await readdir(registry()), await readdir(own())]).toEqual([[], []]);
  });
});
