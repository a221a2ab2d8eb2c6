import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseConfig } from "../../../src/config/load.ts";
import type { DaemonConfig } from "../../../src/config/schema.ts";
import { claimDirectories, restoreClaimFiles } from "../../../src/dra/claim-files.ts";
import { type ClaimReport, DRA_DRIVER, type DraContext } from "../../../src/dra/dra-context.ts";
import { poolOfDevice } from "../../../src/dra/inventory.ts";
import { prepareClaim } from "../../../src/dra/prepare.ts";
import { unprepareClaim } from "../../../src/dra/unprepare.ts";
import { executePluginsOf } from "../../../src/ipam/execute-plugin.ts";
import { ApiFailure } from "../../../src/kube-api/api-failure.ts";
import type { KubeObject } from "../../../src/kube-api/client.ts";
import { type DraPlugin, startDraPlugin } from "../../../src/kubelet/dra-plugin.ts";
import { silentLogger } from "../../../src/logging/logger.ts";
import { Pools } from "../../../src/pools/pools.ts";
import { rebuildAllocations } from "../../../src/reconcile/restore-artefacts.ts";
import { openRecords, type Records } from "../../../src/records/records.ts";
import { systemClock } from "../../../src/sync/clock.ts";
import { KeyedMutex } from "../../../src/sync/keyed-mutex.ts";
import { poolsByName } from "../config/pools-by-name.ts";
import { MemoryDataplane } from "../dataplane/memory-dataplane.ts";
import { type CdiEdits, resolveCdi } from "../kubelet/cdi-runtime.ts";
import { type KubeletDevice, StandInDraManager } from "../kubelet/dra-manager.ts";
import { type ClaimWish, claimObject } from "./claim-object.ts";

/** A node with the driver, kubelet, the runtime's reader of CDI files and claims as the API has them. */
export class DraRig {
  readonly config: DaemonConfig;
  readonly kubelet: StandInDraManager;
  readonly dataplane = new MemoryDataplane();
  /** By namespace and name. */
  readonly claims = new Map<string, KubeObject>();
  readonly reports: ClaimReport[] = [];
  /** Reads of claims. */
  reads = 0;
  records: Records;
  context: DraContext;
  #plugin: DraPlugin | undefined;
  readonly #top: string;

  private constructor(top: string, config: DaemonConfig, records: Records) {
    this.#top = top;
    this.config = config;
    this.records = records;
    this.context = this.#contextOf(records);
    this.kubelet = new StandInDraManager(join(top, "r"));
  }

  /** @param claims of the pool `one`; @param podRoot directory in pods */
  static async open(claims: object = {}, podRoot = "/var/run/vhostuser"): Promise<DraRig> {
    const top = await mkdtemp(join(tmpdir(), "dra-"));
    for (const name of ["run", "r"]) await mkdir(join(top, name));
    const text = JSON.stringify({
      node: "n1",
      root: join(top, "run"),
      podRoot,
      recordsDirectory: join(top, "records"),
      deviceInfoDirectory: join(top, "devinfo"),
      kubelet: { plugins: join(top, "p") },
      dra: { enabled: true, cdiDirectory: join(top, "cdi"), ipamPlugins: join(top, "plugins") },
      pools: poolsByName({
        name: "one",
        resource: "vhostuser/one",
        capacity: 40,
        claims: { ports: 40, ...claims },
        dataplane: { type: "ovs-dpdk", bridge: "br0" },
      }),
    });
    const config = parseConfig(text, "test");
    const rig = new DraRig(top, config, await openRecords(config.recordsDirectory));
    rig.kubelet.start();
    await rig.startDriver();
    return rig;
  }

  async startDriver(): Promise<void> {
    const { context } = this;
    await rebuildAllocations(this.records, context.places, silentLogger);
    await restoreClaimFiles(context);
    this.#plugin = startDraPlugin({
      driver: DRA_DRIVER,
      registryDirectory: join(this.#top, "r"),
      pluginDirectory: context.pluginDirectory,
      podUid: undefined,
      calls: {
        prepare: (claim, signal) => prepareClaim(claim, context, signal),
        unprepare: (claim, signal) => unprepareClaim(claim, context, signal),
      },
      health: () => [],
      clock: systemClock,
      logger: silentLogger,
    });
    await this.kubelet.waitForDriver(DRA_DRIVER);
  }

  async stopDriver(): Promise<void> {
    await this.#plugin?.close();
    await this.kubelet.waitForDriver(DRA_DRIVER, false);
  }

  /** The daemon ends and comes back with what is on disk. @param whileDown what happens to the node */
  async restartDriver(
    whileDown: () => Promise<unknown> = async () => undefined,
    bootId?: string,
  ): Promise<void> {
    await this.stopDriver();
    await whileDown();
    this.records = await openRecords(this.config.recordsDirectory, silentLogger, bootId);
    this.context = this.#contextOf(this.records);
    await this.startDriver();
  }

  /** A reboot empties what is in memory and keeps what is on disk; the switch has its ports in a database. */
  async reboot(): Promise<void> {
    await this.kubelet.stop();
    const lost = async () => {
      for (const path of [this.config.root, this.context.cdiDirectory]) await rm(path, { recursive: true });
      await mkdir(this.config.root);
    };
    await this.stopDriver();
    this.kubelet.start();
    await this.restartDriver(lost, "another-boot");
  }

  async close(): Promise<void> {
    await this.kubelet.stop();
    await this.stopDriver();
    await rm(this.#top, { recursive: true });
  }

  /** Puts claims where the API has them and does what kubelet does before it starts their pod. */
  async prepare(...wishes: readonly ClaimWish[]): Promise<readonly KubeletDevice[]> {
    const objects = wishes.map((wish) => this.put(wish));
    return this.prepareAgain(...objects);
  }

  /** As kubelet does for claims that are there. */
  prepareAgain(...objects: readonly KubeObject[]): Promise<readonly KubeletDevice[]> {
    const claims = objects.map(({ metadata }) => ({
      namespace: String(metadata["namespace"]),
      name: metadata.name,
      uid: String(metadata.uid),
    }));
    return this.kubelet.prepare("pod-uid", DRA_DRIVER, claims);
  }

  unprepare(podUid = "pod-uid"): Promise<void> {
    return this.kubelet.unprepare(podUid, DRA_DRIVER);
  }

  put(wish: ClaimWish): KubeObject {
    const object = claimObject(wish);
    this.claims.set(`${object.metadata["namespace"]}/${wish.name}`, object);
    return object;
  }

  /** What a container with these devices gets of the runtime. */
  container(devices: readonly KubeletDevice[]): CdiEdits {
    return resolveCdi(
      this.context.cdiDirectory,
      devices.flatMap(({ cdi_device_ids }) => cdi_device_ids),
    );
  }

  #contextOf(records: Records): DraContext {
    const { config } = this;
    const pools = new Pools({
      pools: config.pools,
      allocations: records.allocations,
      open: () => this.dataplane,
      logger: silentLogger,
    });
    return {
      node: { config, records, pools },
      places: config,
      locks: new KeyedMutex(),
      api: {
        get: async ({ namespace }, name) => {
          this.reads += 1;
          const found = this.claims.get(`${namespace}/${name}`);
          if (found === undefined) throw new ApiFailure("not-found", `no claim ${name}`, "GET");
          return found;
        },
      },
      poolOf: (device) => poolOfDevice(pools.configured, device),
      report: (report) => this.reports.push(report),
      ...claimDirectories(config),
      ipam: executePluginsOf(config.dra.ipamPlugins ?? ""),
      clock: systemClock,
      logger: silentLogger,
    };
  }
}
