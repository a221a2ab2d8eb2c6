import { join } from "node:path";
import { ChurnNode } from "../churn/churn-node.ts";
import { ClusterNode } from "../cluster/cluster-node.ts";
import { addNetworkNamespace } from "../lab/network-namespace.ts";
import type { LabRun } from "../machine/lab-run.ts";
import { FakeApiServer } from "../stand-in/api-server/fake-api-server.ts";
import { LeakWatch } from "./leak-watch.ts";
import { RecordsDisk } from "./records-disk.ts";
import { SkewedClock } from "./skewed-clock.ts";

const GRACE_SECONDS = 2;
/** Four pods of the churn with two interfaces each, and every guest twice, for a migration; the VM with a claim, too. */
const CAPACITY = 16;
/** Three pods of the churn with two ports each. */
const CLAIM_PORTS = 6;

/** A node, with everything of it that can go wrong. */
export interface Site {
  readonly node: ClusterNode;
  readonly churn: ChurnNode;
  /** Of its own, so that it can be away for one node alone. */
  readonly api: FakeApiServer;
  readonly disk: RecordsDisk;
  readonly clock: SkewedClock;
  readonly leaks: LeakWatch;
}

/** Where a site is and which switch it has. */
export interface SiteOptions {
  readonly name: string;
  readonly bridge: string;
  readonly databaseSocket: string;
  /** The API server of its IPAM agent. */
  readonly ipam: FakeApiServer;
}

/** Starts a node with a disk that can be filled and a clock that can be set. */
export async function startSite(run: LabRun, options: SiteOptions): Promise<Site> {
  const { name } = options;
  const disk = await RecordsDisk.mount(run, join(run.directory, name));
  const api = await FakeApiServer.start();
  run.cleanup.defer(`stop the API server of node ${name}`, () => api.close());
  api.namespaces.add("tests");
  api.store.create("nodes", { metadata: { name } });
  const clock = await SkewedClock.create(run, name);
  const node = await ClusterNode.start(run, {
    ...options,
    capacity: CAPACITY,
    claims: { ports: CLAIM_PORTS, api },
    reclaim: { intervalSeconds: 0.5, graceSeconds: GRACE_SECONDS },
    // While a guest boots too: QEMU must live with it.
    reconnectSilentAfterSeconds: 2,
    daemonPrefix: clock.prefix,
  });
  const { path } = await addNetworkNamespace(run, `churn-${name}`);
  const churn = new ChurnNode(node, path, GRACE_SECONDS * 1000, api);
  return { node, churn, api, disk, clock, leaks: new LeakWatch(node) };
}
