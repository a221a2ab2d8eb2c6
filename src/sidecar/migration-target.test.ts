import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { silentLogger } from "../logging/logger.ts";
import type { Clock } from "../sync/clock.ts";
import { answerDomain } from "./define-domain.ts";

let root: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "kvu-target-"));
});
afterEach(() => rm(root, { recursive: true }));

const DOMAIN = "<domain><devices>\n</devices></domain>";

function answer(
  migrationState: object | undefined,
  deadline = Number.POSITIVE_INFINITY,
  waiting: object = { budgetMs: 60, targetBudgetMs: 30, pollMs: 5 },
): Promise<Uint8Array> {
  const vmi = {
    metadata: { name: "router", namespace: "tests" },
    spec: {
      domain: { devices: { interfaces: [{ name: "blue", binding: { name: "vhostuser" } }] } },
      networks: [{ name: "blue", multus: { networkName: "blue" } }],
    },
    status: { migrationState },
  };
  return answerDomain(
    { domainXML: Buffer.from(DOMAIN), vmi: Buffer.from(JSON.stringify(vmi)) },
    {
      binding: undefined,
      links: [{ here: root, inCompute: "/var/run/kubevirt-hooks/x" }],
      metadataRoot: root,
      socketRoots: ["/var/run"],
      networkInfo: { file: join(root, "never-written"), ...waiting },
      logger: silentLogger,
    },
    { signal: new AbortController().signal, deadline },
  );
}

describe("a migration's target without network-info, as with KubeVirt before 1.6.3", () => {
  it("does not stop the migration: the answer is discarded, an error would not be", async () => {
    expect(Buffer.from(await answer({ targetPod: "virt-launcher-x" })).toString()).toBe(DOMAIN);
    expect(await readdir(root)).toEqual([]);
  });

  it.each([undefined, { completed: true }, { failed: true }])(
    "differs from a VM that starts (migration state %j), where it is an error",
    async (state) => {
      await expect(answer(state)).rejects.toMatchObject({ code: "network-info-timeout" });
    },
  );
});

it("waits on any pod for most of what the caller's deadline leaves, so that its error arrives", async () => {
  await expect(answer(undefined, Date.now() - 1)).rejects.toMatchObject({ code: "network-info-timeout" });
});

it.each([
  ["a VM that starts", undefined],
  ["a migration's target", {}],
])("waits on %s for less than the 20 s that virt-handler waits for an answer", async (_name, state) => {
  let now = 0;
  const clock: Clock = {
    now: () => now,
    monotonic: () => now,
    sleep: async (ms) => {
      now += ms;
    },
  };
  await answer(state, 60_000, { clock }).catch(() => undefined);
  expect(now).toBeGreaterThan(5_000);
  expect(now).toBeLessThanOrEqual(15_000);
});
