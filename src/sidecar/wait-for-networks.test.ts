import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Clock } from "../sync/clock.ts";
import { waitForNetworks } from "./wait-for-networks.ts";

const info = (...interfaces: object[]) => JSON.stringify({ interfaces });

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
