import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Clock } from "../sync/clock.ts";
import { parseNetworkInfo, waitForNetworks } from "./network-info.ts";

const PATH = "/var/run/vhostuser/sockets/pod6c270ef2f25/vhost.sock";
const deviceInfo = (extra: object = {}) => ({
  type: "vhost-user",
  version: "1.1.0",
  "vhost-user": { mode: "server", path: PATH, ...extra },
});
const info = (...interfaces: object[]) => JSON.stringify({ interfaces });

describe("parseNetworkInfo", () => {
  it("gives socket, MAC and MTU, and doesn't read other networks", () => {
    const text = info(
      { network: "sriov", deviceInfo: { type: "pci", version: "1.1.0", pci: {} }, mtu: 12 },
      { network: "a", deviceInfo: deviceInfo(), mac: "02:00:00:00:00:AA", mtu: 9000 },
      { network: "b", deviceInfo: null, mac: "", mtu: 0 },
    );
    expect(Object.fromEntries(parseNetworkInfo(text, "file", ["a", "b"]))).toEqual({
      a: { socketPath: PATH, mac: "02:00:00:00:00:aa", mtu: 9000 },
      b: { socketPath: undefined, mac: undefined, mtu: undefined },
    });
  });

  it("accepts a document without interfaces", () => {
    expect(parseNetworkInfo("{}", "file", ["a"]).size).toBe(0);
  });

  it.each<[string, string, object, string]>([
    ["device-info of another type", "invalid-network-info", { deviceInfo: { type: "pci" } }, '"pci"'],
    [
      "device-info without its part",
      "invalid-network-info",
      { deviceInfo: { type: "vhost-user", version: "1" } },
      "vhost-user",
    ],
    [
      "QEMU as the client",
      "invalid-network-info",
      { deviceInfo: deviceInfo({ mode: "client" }) },
      '"client"',
    ],
    ["an invalid MAC", "invalid-network-info", { mac: "xx" }, '"xx"'],
    ["a multicast MAC", "invalid-network-info", { mac: "ff:ff:ff:ff:ff:ff" }, "unicast"],
    ["an MTU too small", "invalid-network-info", { mtu: 67 }, "67"],
    ["an MTU too large", "invalid-network-info", { mtu: 65536 }, "65536"],
    ["an MTU that is no number", "invalid-network-info", { mtu: "9000" }, "interfaces.0.mtu"],
  ])("refuses %s", (_name, code, entry, words) => {
    expect(() => parseNetworkInfo(info({ network: "a", ...entry }), "the file", ["a"])).toThrow(
      expect.objectContaining({ code, message: expect.stringContaining(words) }),
    );
  });
});

let directory: string;
let file: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "network-info-"));
  file = join(directory, "network-info");
});
afterEach(() => rm(directory, { recursive: true }));

/** Time that passes only during sleep; `onSleep` is what happens meanwhile. */
function steppedClock(onSleep: (sleeps: number) => Promise<void> | void = () => undefined): Clock {
  let now = 0;
  let sleeps = 0;
  return {
    now: () => now,
    monotonic: () => now,
    sleep: async (ms) => {
      now += ms;
      await onSleep(++sleeps);
    },
  };
}

describe("waitForNetworks", () => {
  it("waits through a missing file, an empty one and one that doesn't list all networks", async () => {
    const contents = ["", "\n", info({ network: "a" }), info({ network: "a" }, { network: "b", mtu: 9000 })];
    const clock = steppedClock((sleeps) => writeFile(file, contents[sleeps - 1] ?? "gone too far"));
    const entries = await waitForNetworks(["a", "b"], { file, budgetMs: 2_000, clock });
    expect(entries.get("b")).toEqual({ socketPath: undefined, mac: undefined, mtu: 9000 });
  });

  it.each([
    ["is not there", undefined, "downwardAPI: device-info"],
    ["is empty", "", "network-status"],
    ["lists others only", info({ network: "a" }), "network b within 2 s"],
  ])("reports what it saw where the file %s until the end", async (_name, content, words) => {
    if (content !== undefined) await writeFile(file, content);
    await expect(
      waitForNetworks(["a", "b"], { file, budgetMs: 2_000, clock: steppedClock() }),
    ).rejects.toMatchObject({
      code: "network-info-timeout",
      message: expect.stringContaining(words),
    });
  });

  it("stops waiting when the caller has given up", async () => {
    const caller = new AbortController();
    const waiting = waitForNetworks(["a"], { file, budgetMs: 2_000, signal: caller.signal });
    caller.abort(new Error("gone"));
    await expect(waiting).rejects.toThrow(/gone|aborted/);
  });

  it("fails at once where what KubeVirt wrote is wrong", async () => {
    await writeFile(file, "[]");
    await expect(waitForNetworks(["a"], { file, budgetMs: 2_000 })).rejects.toMatchObject({
      code: "invalid-network-info",
    });
  });

  it("reports a path that is not a file", async () => {
    await expect(waitForNetworks(["a"], { file: directory, budgetMs: 2_000 })).rejects.toMatchObject({
      code: "invalid-network-info",
      message: expect.stringContaining("EISDIR"),
    });
  });
});
