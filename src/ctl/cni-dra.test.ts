import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { RecordingPlugins } from "../../test/stand-in/cni-dra/recording-plugins.ts";
import { ManualClock } from "../../test/stand-in/manual-clock.ts";
import { type InterfaceRecord, interfaceRecordKind } from "../cni-dra/interface-record.ts";
import { Interfaces } from "../cni-dra/interfaces.ts";
import { serveDriverStatus } from "../cni-dra/serve-status.ts";
import { silentLogger } from "../logging/logger.ts";
import type { HttpServer } from "../observe/http-server.ts";
import { RecordStore } from "../records/record-store.ts";
import { runCtl } from "./run-ctl.ts";

let directory: string;
let plugins: RecordingPlugins;
let clock: ManualClock;
let records: RecordStore<InterfaceRecord>;
let interfaces: Interfaces;
let isConnected: boolean;
let server: HttpServer;
let socketPath: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "kvu-"));
  plugins = new RecordingPlugins(join(directory, "bin"));
  await plugins.install("bridge", "tuning");
  clock = new ManualClock(1_767_225_600_000);
  records = await RecordStore.open(join(directory, "state"), interfaceRecordKind, silentLogger);
  interfaces = new Interfaces({
    ...{ records, delegate: plugins.delegate, clock, logger: silentLogger },
    places: { cdiDirectory: join(directory, "cdi"), readyDirectory: join(directory, "ready") },
    hasNetns: async (path) => existsSync(path),
    ...{ report: () => undefined, reportDel: () => undefined },
  });
  isConnected = true;
  socketPath = join(directory, "status.sock");
  server = await serveDriverStatus({
    ...{ node: "n1", records, interfaces, isConnected: () => isConnected, clock, socketPath },
    logger: silentLogger,
  });
});
afterEach(async () => {
  await server.close();
  await rm(directory, { recursive: true });
});

/** A pod whose sandbox has an interface of a claim. */
async function startPod(name: string, network: Partial<InterfaceRecord["network"]> = {}) {
  const pod = { namespace: "shop", name, uid: `${name}-uid` };
  const claim = { namespace: "shop", name: `${name}-net`, uid: `${name}-claim` };
  const netns = join(directory, name);
  await writeFile(netns, "");
  await interfaces.prepare([
    {
      ...{ claim, pod, request: "net", pool: "n1", device: "cni", ifName: "net1" },
      network: {
        ...{ cniVersion: "1.0.0", name: "extra" },
        plugins: [{ type: "bridge" }, { type: "tuning" }],
        ...network,
      },
    },
  ]);
  await interfaces.runPodSandbox({ ...pod, id: `s-${name}`, netns });
  await plugins.takeCalls();
}
/** Its sandbox ends, and DEL fails. */
async function stopPod(name: string) {
  await plugins.setFailing("DEL", "net1", true);
  await interfaces.stopPodSandbox({ namespace: "shop", name, uid: `${name}-uid`, id: `s-${name}` });
  await plugins.takeCalls();
}

async function cniDra(...args: readonly string[]) {
  const [printed, complaints]: [string[], string[]] = [[], []];
  const code = await runCtl({
    args: ["cni-dra", ...args, "--cni-dra-socket", socketPath],
    screen: { columns: 80, colour: false, write: (text) => void printed.push(text) },
    complain: (text) => void complaints.push(text),
    ...{ node: "n1", version: "0.1.0" },
    host: { proc: "/proc", sys: "/sys", kernel: "6.1.0", uid: 0, run: async () => "" },
  });
  const [stdout, stderr] = [printed.join(""), complaints.join("")];
  if (!args.includes("wide") && !args.includes("--json"))
    expect(stdout.split("\n").filter((line) => line.length > 80)).toEqual([]);
  return { code, stdout, stderr };
}

describe("cni-dra list", () => {
  it("shows the interfaces of this node's claims", async () => {
    expect(await cniDra("list")).toMatchObject({ code: 0, stdout: "no interfaces\n" });
    await startPod("web-0");
    await clock.advance(180_000);
    expect(await cniDra("list")).toMatchObject({
      code: 0,
      stdout: `POD         INTERFACE  NETWORK  PLUGINS        STATE  AGE
shop/web-0  net1       extra    bridge,tuning  added   3m
`,
    });
    expect((await cniDra("list", "-o", "wide")).stdout).toMatch(/web-0-net\/net +s-web-0 +10\.1\.2\.3\/24/);
    expect((await cniDra("list", "-n", "other")).stdout).toBe("no interfaces\n");
    const { interfaces: all } = JSON.parse((await cniDra("list", "--json")).stdout);
    expect(all).toMatchObject([
      {
        pod: { name: "web-0" },
        sandboxes: [{ addedAt: "2026-01-01T00:00:00.000Z", hostInterfaces: ["veth1"] }],
      },
    ]);
  });

  it("names a DEL that fails, which is a problem after ten minutes", async () => {
    await startPod("web-0");
    await stopPod("web-0");
    expect((await cniDra("list")).code).toBe(0);
    await clock.advance(10 * 60_000);
    const { code, stdout } = await cniDra("list");
    expect(code).toBe(1);
    expect(stdout).toContain(`DEL fails  10m

- DEL of shop/web-0 net1 has failed for 10m: cni-plugin-failed: CNI plugin
  "tuning": no carrier on net1 (CNI DEL)
  cure: repair what the plugin names; vhostuserctl cni-dra give-up shop/web-0
        net1 if that cannot be done
`);
  });

  it("says that the runtime is away", async () => {
    isConnected = false;
    const { code, stdout } = await cniDra("list");
    expect([code, stdout]).toEqual([1, expect.stringContaining("the container runtime is not connected")]);
  });
});

describe("cni-dra check", () => {
  it("runs CHECK of each plugin with the result of ADD", async () => {
    await startPod("web-0");
    expect(await cniDra("check", "web-0")).toMatchObject({
      ...{ code: 0, stdout: "shop/web-0 net1, network extra: ok\n" },
    });
    const at = `net1 s-web-0 ${join(directory, "web-0")}`;
    expect(await plugins.takeCalls()).toEqual([`CHECK bridge ${at}`, `CHECK tuning ${at}`]);
    expect(await plugins.stdinOf("CHECK", "bridge")).toMatchObject({
      ...{ type: "bridge", name: "extra", prevResult: { interfaces: [{}, { name: "net1" }] } },
    });
    await plugins.setFailing("CHECK", "net1", true);
    const { code, stdout } = await cniDra("check", "shop/web-0");
    expect([code, stdout.replaceAll(/\s+/g, " ")]).toEqual([
      ...[1, expect.stringContaining('failed, cni-plugin-failed: CNI plugin "bridge": no carrier on net1')],
    ]);
  });

  it.each([
    [{ cniVersion: "0.3.1" }, "unchecked, CNI 0.3.1 has no CHECK"],
    [{ disableCheck: true }, "unchecked, its network has disableCheck"],
  ])("runs nothing for a network with %j", async (network, reason) => {
    await startPod("web-0", network);
    const { code, stdout } = await cniDra("check", "web-0");
    expect([code, stdout.replaceAll(/\s+/g, " ")]).toEqual([0, expect.stringContaining(reason)]);
    expect(await plugins.takeCalls()).toEqual([]);
  });

  it("does not know a pod without such an interface", async () => {
    const { code, stderr } = await cniDra("check", "shop/other");
    expect([code, stderr]).toEqual([
      2,
      expect.stringContaining("pod shop/other has no interface of cni-dra"),
    ]);
  });
});

describe("cni-dra give-up", () => {
  it("drops the DEL, runs nothing, and says what may be left behind", async () => {
    await startPod("web-0");
    await stopPod("web-0");
    const { code, stdout } = await cniDra("give-up", "shop/web-0", "net1");
    expect([code, stdout]).toEqual([
      0,
      `gave up DEL of shop/web-0 net1, network extra
  may be left behind: what bridge and tuning keep for sandbox s-web-0, such as
    addresses 10.1.2.3/24, 10.9.9.9/24 and host interfaces veth1
`,
    ]);
    expect([await plugins.takeCalls(), records.list()[0]?.attachments]).toEqual([[], []]);
  });

  it("refuses what does not fail, and a pod without its namespace", async () => {
    await startPod("web-0");
    const refused = await cniDra("give-up", "shop/web-0", "net1");
    expect([refused.code, refused.stderr]).toEqual([
      2,
      expect.stringContaining("no DEL of interface net1 of pod shop/web-0 fails on this node"),
    ]);
    expect((await cniDra("give-up", "web-0", "net1")).stderr).toContain("write NAMESPACE/POD");
    expect(records.list()[0]?.attachments).toHaveLength(1);
  });

  it("needs a POST with all that says which one", async () => {
    const ask = (path: string, method: string) =>
      new Promise<number | undefined>((resolve, reject) =>
        request({ socketPath, path, method, agent: false }, (response) => {
          response.resume();
          resolve(response.statusCode);
        })
          .on("error", reject)
          .end(),
      );
    expect(await ask("/v1/give-up?namespace=shop&pod=web-0&interface=net1", "GET")).toBe(405);
    expect(await ask("/v1/give-up?namespace=shop&pod=web-0", "POST")).toBe(400);
  });
});

it("where the driver does not run, that is what vhostuserctl says", async () => {
  await server.close();
  const { code, stderr } = await cniDra("list");
  expect([code, stderr]).toEqual([2, expect.stringContaining("cni-dra-unavailable: the driver cni-dra")]);
});
