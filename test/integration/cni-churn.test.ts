import { readFile } from "node:fs/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { churnOnce } from "../churn/churn.ts";
import { ChurnNode } from "../churn/churn-node.ts";
import { SharedSwitch } from "../churn/shared-switch.ts";
import { ClusterNode } from "../cluster/cluster-node.ts";
import { BRIDGES, startSwitch } from "../cluster/switch.ts";
import { addNetworkNamespace } from "../lab/network-namespace.ts";
import type { OvsDpdk } from "../lab/ovs-dpdk.ts";
import { type LabRun, openLabRun } from "../machine/lab-run.ts";
import { FakeApiServer } from "../stand-in/api-server/fake-api-server.ts";

/** Nodes that churn at the same time: most of a run is waiting for what is abandoned to be old enough. */
const NODES = 6;
const RUNS = Number(process.env["KUBE_VHOSTUSER_CHURN_RUNS"] ?? 24);
const GRACE_SECONDS = 1;
/** Each run's seed is this one and its number; printed, so that a failing one can be repeated. */
const SEED = Number(process.env["KUBE_VHOSTUSER_CHURN_SEED"] ?? Date.now() % 1_000_000_000);

let run: LabRun;
let ovs: OvsDpdk;
let shared: SharedSwitch;
const lanes: ChurnNode[] = [];

beforeAll(async () => {
  run = await openLabRun();
  ovs = await startSwitch(run, 0);
  shared = new SharedSwitch(ovs, BRIDGES.a);
  const api = await FakeApiServer.start();
  run.cleanup.defer("stop the API server", () => api.close());
  api.namespaces.add("tests");
  const startLane = async (number: number) => {
    api.store.create("nodes", { metadata: { name: `n${number}` } });
    const node = await ClusterNode.start(run, {
      name: `n${number}`,
      bridge: BRIDGES.a,
      databaseSocket: ovs.databaseSocket,
      capacity: 5,
      claims: { ports: 6, api },
      reclaim: { intervalSeconds: 0.3, graceSeconds: GRACE_SECONDS },
    });
    const { path } = await addNetworkNamespace(run, `pod${number}`);
    lanes.push(new ChurnNode(node, path, GRACE_SECONDS * 1000, api));
  };
  await Promise.all(Array.from({ length: NODES }, (_, number) => startLane(number)));
});
afterAll(() => run?.close());

/** What is needed to debug a failure on a machine without access. */
async function lastLines(file: string): Promise<string> {
  return (await readFile(file, "utf8")).split("\n").slice(-60).join("\n");
}

describe("verbs, kills and restarts in any order", () => {
  it(
    `leave what living pods should have and nothing else (${RUNS} runs)`,
    async () => {
      console.log(`churn: ${RUNS} runs, seed ${SEED}`);
      let next = 0;
      const failures: unknown[] = [];
      await Promise.all(
        lanes.map(async (lane) => {
          while (next < RUNS && failures.length === 0) {
            const seed = SEED + next++;
            await churnOnce(lane, shared, seed).catch(async (error: unknown) => {
              failures.push(error);
              for (const log of [lane.node.daemonLog, ovs.vswitchdLog])
                console.log(log, await lastLines(log));
            });
          }
        }),
      );
      expect(failures).toEqual([]);
      expect(next).toBe(RUNS);
    },
    20 * 60_000,
  );
});
