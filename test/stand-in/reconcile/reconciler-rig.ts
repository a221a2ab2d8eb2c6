import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseConfig } from "../../../src/config/load.ts";
import type { DaemonConfig } from "../../../src/config/schema.ts";
import { createAllocator } from "../../../src/device-plugin/allocate.ts";
import { type Logger, silentLogger } from "../../../src/logging/logger.ts";
import { Pools } from "../../../src/pools/pools.ts";
import type { ReconcileObserver } from "../../../src/reconcile/reconcile-pass.ts";
import { Reconciler, type ReconcilerOptions } from "../../../src/reconcile/reconciler.ts";
import { PortRepair } from "../../../src/reconcile/repair-ports.ts";
import { SilentGuests } from "../../../src/reconcile/silent-guests.ts";
import { openRecords, type Records } from "../../../src/records/records.ts";
import type { Clock } from "../../../src/sync/clock.ts";
import { KeyedMutex } from "../../../src/sync/keyed-mutex.ts";
import { poolsByName } from "../config/pools-by-name.ts";
import { MemoryDataplane } from "../dataplane/memory-dataplane.ts";
import { unobserved } from "./unobserved.ts";

const OWN_POD = { namespace: "ns", name: "daemon" };

/** What a test may want of a reconciler. */
export interface ReconcilerWishes {
  readonly config?: Partial<DaemonConfig>;
  /** Default: it sleeps no time at all. */
  readonly clock?: Clock;
  /** Kubelet's list, which has the daemon's own pod alone, is read; the list comes when this resolves. */
  readonly onList?: () => unknown;
  readonly observer?: Partial<ReconcileObserver>;
  readonly logger?: Logger;
  readonly directories?: NonNullable<ReconcilerOptions["directories"]>;
  readonly repairClaims?: () => Promise<void>;
}

/** Records and directories of a node with two pools, each with a switch in memory, for tests of the reconciler. */
export class ReconcilerRig {
  readonly config: DaemonConfig;
  records: Records;
  readonly switches = { one: new MemoryDataplane(), two: new MemoryDataplane() };
  /** Milliseconds since the epoch. */
  now = 1_000_000;
  readonly #top: string;
  readonly #stop = new AbortController();

  private constructor(top: string, config: DaemonConfig, records: Records) {
    this.#top = top;
    this.config = config;
    this.records = records;
  }

  static async open(): Promise<ReconcilerRig> {
    const top = await mkdtemp(join(tmpdir(), "kvu-rec-"));
    await mkdir(join(top, "run"));
    const pool = (name: string) => ({
      name,
      resource: `vhostuser/${name}`,
      capacity: 4,
      dataplane: { type: "ovs-dpdk", bridge: "br0", database: `/run/${name}.sock` },
    });
    const text = JSON.stringify({
      node: "n1",
      root: join(top, "run"),
      recordsDirectory: join(top, "records"),
      deviceInfoDirectory: join(top, "devinfo"),
      reclaim: { intervalSeconds: 30, graceSeconds: 10 },
      pools: poolsByName(pool("one"), pool("two")),
    });
    const config = parseConfig(text, "test");
    return new ReconcilerRig(top, config, await openRecords(config.recordsDirectory));
  }

  /** Reads the records again, as a daemon that starts does. */
  async reopenRecords(): Promise<void> {
    this.records = await openRecords(this.config.recordsDirectory);
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await rm(this.#top, { recursive: true });
  }

  async allocate(name: "one" | "two"): Promise<void> {
    const pool = this.config.pools.find((one) => one.name === name);
    if (pool === undefined) throw new Error(`no pool ${name}`);
    const allocator = createAllocator({
      pool,
      places: this.#places,
      allocations: this.records.allocations,
      clock: this.#clock,
      logger: silentLogger,
    });
    await allocator([`${name}-00000`]);
  }

  /** Attached ports of one pod, as the records have them after an ADD; gives their names. */
  async attach(count: number, podName = "p"): Promise<readonly string[]> {
    await this.allocate("one");
    const [allocation] = this.records.allocations.list();
    if (allocation === undefined) throw new Error("no allocation");
    const names = Array.from({ length: count }, (_, index) => `net${index}`);
    for (const interfaceName of names) {
      await this.records.ports.put({
        containerId: "c",
        startedAtMs: 1,
        bootId: "boot",
        releases: [],
        interfaceName,
        state: "attached",
        allocationId: allocation.id,
        device: "one-00000",
        pool: "one",
        portName: `vhu-${interfaceName}`,
        bridge: "br0",
        switchSocketPath: join(this.config.root, allocation.id, interfaceName, "vhost.sock"),
        podSocketPath: `/var/run/vhostuser/one/${interfaceName}/vhost.sock`,
        mac: "02:00:00:00:00:01",
        settings: {},
        network: "n",
        netns: "/n",
        podNamespace: "ns",
        podName,
        podUid: "",
        createdAt: this.now,
      });
    }
    return names.map((name) => `vhu-${name}`).sort();
  }

  reconciler(wishes: ReconcilerWishes = {}): Reconciler {
    return new Reconciler({
      ...this.#scope(wishes),
      listPods: async () => {
        await wishes.onList?.();
        return [{ podNamespace: OWN_POD.namespace, podName: OWN_POD.name, containers: [] }];
      },
      ownPod: OWN_POD,
      repairClaims: wishes.repairClaims,
      ...(wishes.directories === undefined ? {} : { directories: wishes.directories }),
      clock: wishes.clock ?? this.#clock,
    });
  }

  /** @param afterMs see {@link SilentGuests} */
  silentGuests(afterMs: number, wishes: ReconcilerWishes = {}): SilentGuests {
    const scope = { ...this.#scope(wishes), stop: this.#stop.signal };
    const clock = wishes.clock ?? this.#clock;
    const ports = new PortRepair(scope, clock);
    return new SilentGuests({ scope, afterMs, reconnect: (silent) => ports.reconnect(silent), clock });
  }

  #scope(wishes: ReconcilerWishes) {
    const { config, records, switches } = this;
    return {
      context: {
        config: { ...config, ...wishes.config },
        records,
        pools: new Pools({
          pools: config.pools,
          allocations: records.allocations,
          open: (where) =>
            switches[where.type === "ovs-dpdk" && where.database.includes("one") ? "one" : "two"],
          logger: silentLogger,
        }),
      },
      places: this.#places,
      locks: new KeyedMutex(),
      logger: wishes.logger ?? silentLogger,
      observer: { ...unobserved, ...wishes.observer },
    };
  }

  get #clock(): Clock {
    return { now: () => this.now, monotonic: () => this.now, sleep: async () => undefined };
  }

  get #places() {
    const { root, podRoot, deviceInfoDirectory } = this.config;
    return { root, podRoot, deviceInfoDirectory };
  }
}
