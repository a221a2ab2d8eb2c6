import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { newAllocation } from "../../../src/address-objects/address-allocation.ts";
import { newBlock } from "../../../src/address-objects/address-block.ts";
import type { PoolStatus } from "../../../src/address-objects/address-pool.ts";
import { blockAt } from "../../../src/addresses/grid.ts";
import { startController } from "../../cluster/bundled-ipam.ts";
import type { LabRun } from "../../machine/lab-run.ts";
import { waitUntil } from "../../machine/wait-until.ts";
import { FakeApiServer } from "../../stand-in/api-server/fake-api-server.ts";
import { createPool, createSpace } from "../bench-agent.ts";
import { REST_TIMES, TRIAL_REST } from "../daemon-at-rest.ts";
import { atMost, type Measurement } from "../measurement.ts";
import { anonymousKiB } from "../process-memory.ts";

const ADDRESSES = 100_000;
const NODES = 1000;
/** Addresses of a block, all of them handed out. */
const BLOCK = 16;
const PREFIXES = { ipv4: 28, ipv6: 122 };
/** 10.1.0.0, from where on the pool has every address. */
const FIRST = (10n << 24n) + (1n << 16n);

/** A rig of the suite, as far as this is concerned. */
interface ControllerRig {
  readonly run: LabRun;
  readonly isTrial: boolean;
}

/** Memory of the bundled controller that follows a cluster with 100,000 addresses. */
export const controllerMemory: readonly Measurement<ControllerRig>[] = [
  ofCluster("controller's memory, 100,000 addresses in blocks of nodes", "nodes"),
  ofCluster("controller's memory, 100,000 addresses allocated one by one, 100,000 pods", "single"),
];

function ofCluster(name: string, kind: "nodes" | "single"): Measurement<ControllerRig> {
  return {
    ...{ name, unit: "MB", repetitions: 1, shows: "median", aim: atMost(150, "<= 150 MB") },
    ours: async ({ run, isTrial }) => {
      const api = await FakeApiServer.start();
      const close = run.cleanup.defer(`stop the API server of ${kind}`, () => api.close());
      const addresses = isTrial ? BLOCK : ADDRESSES;
      fill(api, kind, addresses, isTrial ? 1 : NODES);
      const controller = await startController(run, api, `controller-${kind}`);
      const isCounted = () => {
        const { status } = api.store.get("addresspools", "blue") as { readonly status?: PoolStatus };
        return status?.used === addresses;
      };
      const counted = waitUntil(isCounted, { what: "the pool is counted", limitMs: 300_000, everyMs: 100 });
      await Promise.race([counted, controller.died]);
      await delay((isTrial ? TRIAL_REST : REST_TIMES).calmMs);
      const bytes = (await anonymousKiB(controller.pid)) * 1024;
      await controller.stop();
      await close();
      return bytes / 1e6;
    },
  };
}

/** A cluster's objects: blocks that are full, and for single addresses an allocation and a pod for each. */
function fill(api: FakeApiServer, kind: "nodes" | "single", addresses: number, nodes: number): void {
  const { store } = api;
  createSpace(api, PREFIXES.ipv4);
  createPool(api, "blue", "10.0.0.0/8", { mode: kind === "nodes" ? "NodeBlocks" : "PerAddress" });
  const uids = Array.from({ length: nodes }, (_, index) => {
    return store.create("nodes", { metadata: { name: `node-${index}` } }).metadata.uid;
  });
  for (let index = 0; index < addresses / BLOCK; index++) {
    const prefix = blockAt(FIRST / BigInt(BLOCK) + BigInt(index), "ipv4", PREFIXES);
    const name = `node-${index % nodes}`;
    const ofNode = { kind: "Node", name, uid: uids[index % nodes] ?? "", journal: randomUUID() } as const;
    const owner = kind === "nodes" ? ofNode : ({ kind: "Shared" } as const);
    const block = newBlock({ space: "default", prefix, owner, state: "Bound", pool: "blue" });
    const made = store.create("addressblocks", block);
    if (kind === "nodes")
      store.update("addressblocks", made.metadata.name, { ...made, status: { used: BLOCK } }, "status");
  }
  for (let index = 0; kind === "single" && index < addresses; index++) {
    const [name, nodeName] = [`pod-${index}`, `node-${index % nodes}`];
    const pod = store.create("default/pods", {
      metadata: { name, namespace: "default" },
      spec: { nodeName },
    });
    const owner = {
      ...{ kind: "Pod", namespace: "default", name, uid: pod.metadata.uid },
      ...{ network: "blue", interface: "net1", container: `${index}`.padStart(64, "0") },
    };
    const address = { family: "ipv4", value: FIRST + BigInt(index) } as const;
    const allocation = { space: "default", pool: "blue", address, node: nodeName, owner, key: undefined };
    store.create("addressallocations", newAllocation(allocation));
  }
}
