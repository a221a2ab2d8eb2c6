import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseConfig } from "../../../src/config/load.ts";
import { PoolDevices } from "../../../src/device-plugin/pool-devices.ts";
import type { StartDraOptions } from "../../../src/dra/start-dra.ts";
import type { Logger } from "../../../src/logging/logger.ts";
import { DeviceUses } from "../../../src/pools/capacity.ts";
import { Pools } from "../../../src/pools/pools.ts";
import { openRecords } from "../../../src/records/records.ts";
import { systemClock } from "../../../src/sync/clock.ts";
import { KeyedMutex } from "../../../src/sync/keyed-mutex.ts";
import { poolsByName } from "../config/pools-by-name.ts";
import { MemoryDataplane } from "../dataplane/memory-dataplane.ts";
import { StandInDraManager } from "../kubelet/dra-manager.ts";

/** The API server of a node's driver, and how the driver logs. */
export interface DriverRigOptions {
  readonly url: string;
  /** With `token` and `ca.crt`. */
  readonly serviceAccountDirectory: string;
  readonly logger: Logger;
  /** Default 10 ports, of which claims may have 4. */
  readonly capacity?: { readonly ports: number; readonly forClaims: number };
}

/** A node `n1` with a pool `one`, whose switch is a stand-in, and all that the DRA driver is started with there. */
export interface DriverRig {
  readonly options: StartDraOptions;
  /** The pool's. */
  readonly devices: PoolDevices;
  /** Not started yet. */
  readonly kubelet: StandInDraManager;
  readonly top: string;
  /** Prepares that kubelet asked for. */
  readonly calls: readonly string[];
  close(): Promise<void>;
}

export async function openDriverRig(rig: DriverRigOptions): Promise<DriverRig> {
  const { url, serviceAccountDirectory, logger, capacity = { ports: 10, forClaims: 4 } } = rig;
  const top = await mkdtemp(join(tmpdir(), "dra-"));
  for (const name of ["run", "r"]) await mkdir(join(top, name));
  const kubelet = new StandInDraManager(join(top, "r"));
  const calls: string[] = [];
  const config = parseConfig(
    JSON.stringify({
      ...{ node: "n1", root: join(top, "run"), recordsDirectory: join(top, "records") },
      deviceInfoDirectory: join(top, "devinfo"),
      kubelet: { plugins: join(top, "p"), pluginsRegistry: join(top, "r") },
      dra: {
        ...{ enabled: true, cdiDirectory: join(top, "cdi"), apiServer: url },
        ...{ ipamPlugins: join(top, "plugins"), serviceAccountDirectory },
      },
      pools: poolsByName({
        ...{ name: "one", capacity: capacity.ports, claims: { ports: capacity.forClaims } },
        dataplane: { type: "ovs-dpdk", bridge: "br0" },
      }),
    }),
    "test",
  );
  const records = await openRecords(config.recordsDirectory);
  const pools = new Pools({
    ...{ pools: config.pools, allocations: records.allocations, logger },
    open: () => new MemoryDataplane(),
  });
  const pool = pools.configured.get("one");
  if (pool === undefined) throw new Error("one pool");
  const uses = new DeviceUses(records.allocations);
  const devices = new PoolDevices(pool.config, uses);
  devices.update({
    healthy: true,
    uplink: { numaNode: 1, pciAddress: "0000:3b:00.1", pcieRoot: "pci0000:3a" },
  });
  const options: StartDraOptions = {
    ...{ node: { config, records, pools }, locks: new KeyedMutex(), pools: [{ pool, devices }], uses },
    observe: ({ prepare, unprepare }) => ({
      prepare: (claim, signal) => {
        calls.push(`prepare ${claim.name}`);
        return prepare(claim, signal);
      },
      unprepare,
    }),
    ...{ apiServer: undefined, podUid: "pod-uid", clock: systemClock, logger },
  };
  const close = async () => {
    await kubelet.stop();
    await rm(top, { recursive: true });
  };
  return { ...{ options, devices, kubelet, top, calls }, close };
}
