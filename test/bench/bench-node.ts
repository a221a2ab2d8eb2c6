import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { DaemonConfig } from "../../src/config/schema.ts";
import { mountRoot } from "../../src/node-setup/mount-root/mount-root.ts";
import { readRecords } from "../../src/records/records.ts";
import { type Child, startChild } from "../machine/child.ts";
import type { LabRun } from "../machine/lab-run.ts";
import { runProgram } from "../machine/run-program.ts";
import type { FakeApiServer } from "../stand-in/api-server/fake-api-server.ts";
import { writeServiceAccount } from "../stand-in/api-server/service-account.ts";
import { DRIVER } from "../stand-in/dra/claim-object.ts";
import { StandInDraManager } from "../stand-in/kubelet/dra-manager.ts";
import { StandInKubelet } from "../stand-in/kubelet/kubelet.ts";
import { cpuSeconds } from "./process-cpu.ts";
import { residentKiB } from "./process-memory.ts";
import { timeWork } from "./timed-program.ts";

/** Resource of the node's pool. */
export const SOCKETS = "vhostuser/sockets";
const PROJECT = resolve(import.meta.dirname, "../..");
const START_LIMIT_MS = 20_000;

/** A node to be measured. */
export interface BenchNodeOptions {
  /** Short and unique in the run: unix sockets lie below it. */
  readonly name: string;
  /** The pool's switch. */
  readonly dataplane: DaemonConfig["pools"][number]["dataplane"];
  /** Devices of the pool. */
  readonly devices: number;
  /** Ports of the pool for claims, beside its devices, and the API server that has the claims; default none. */
  readonly claims?: { readonly ports: number; readonly api: FakeApiServer };
  /** Other than the product's defaults where what is measured is that allocations are given back. */
  readonly reclaim?: DaemonConfig["reclaim"];
}

/**
 * The bundled daemon on a node with the kubelet stand-in. Everything that can be left at the product's defaults is:
 * log level, intervals, how long abandoned things stay.
 */
export class BenchNode {
  readonly kubelet: StandInKubelet;
  /** The part of kubelet that calls DRA drivers; it runs where the node has claims. */
  readonly dra: StandInDraManager;
  readonly directory: string;
  readonly cniSocket: string;
  readonly deviceInfo: string;
  readonly #run: LabRun;
  readonly #options: BenchNodeOptions;
  readonly #tmpfs: string;
  readonly #root: string;
  readonly #unmounts: (() => Promise<void>)[] = [];
  #daemon: Child | undefined;
  #lives = 0;

  private constructor(run: LabRun, options: BenchNodeOptions) {
    this.#run = run;
    this.#options = options;
    this.directory = join(run.directory, options.name);
    // What is below /run and /var/run in production is on a tmpfs here, too; records are on disk.
    this.#tmpfs = join(this.directory, "run");
    this.cniSocket = join(this.#tmpfs, "cni.sock");
    this.deviceInfo = join(this.#tmpfs, "devinfo");
    this.#root = join(this.directory, "vhu");
    this.kubelet = StandInKubelet.create({ root: join(this.directory, "kubelet") });
    this.dra = new StandInDraManager(this.#pluginsRegistry);
  }

  get name(): string {
    return this.#options.name;
  }

  /** A node with a running kubelet and no daemon yet. */
  static async open(run: LabRun, options: BenchNodeOptions): Promise<BenchNode> {
    const node = new BenchNode(run, options);
    await node.#mount(node.#tmpfs, () => runProgram("mount", ["-t", "tmpfs", "bench", node.#tmpfs]));
    await node.#mount(node.#root, () => mountRoot({ root: node.#root, sizeMiB: 16 }));
    await writeFile(join(node.directory, "config.json"), JSON.stringify(node.#config()));
    run.cleanup.defer(`stop kubelet of node ${options.name}`, () => node.kubelet.stop());
    await node.kubelet.start();
    if (options.claims !== undefined) await node.#startDra(options.claims.api);
    return node;
  }

  /** Starts the daemon. @returns milliseconds until kubelet had all devices healthy */
  startDaemon(): Promise<number> {
    return timeWork(async () => {
      await this.#spawnDaemon();
      await this.untilHealthy(this.#daemon);
    });
  }

  /** Starts the daemon. @returns milliseconds until kubelet had taken its registration, the switch not asked for */
  async startUntilRegistered(): Promise<number> {
    const before = this.kubelet.registrations.length;
    return this.startUntil("a registration", () =>
      this.kubelet.registrations.slice(before).some(({ resource }) => resource === SOCKETS),
    );
  }

  /** Starts the daemon. @returns milliseconds until so */
  async startUntil(what: string, isDone: () => boolean): Promise<number> {
    const ms = await timeWork(async () => {
      await this.#spawnDaemon();
      const end = performance.now() + START_LIMIT_MS;
      while (!isDone()) {
        if (performance.now() > end || this.#daemon?.isRunning() === false)
          throw new Error(`the daemon started without ${what}: ${await this.#daemon?.logTail()}`);
        await delay(1);
      }
    });
    await this.untilHealthy(this.#daemon);
    return ms;
  }

  /** Waits until kubelet has all devices to give. */
  async untilHealthy(daemon: Child | undefined = this.#daemon): Promise<void> {
    try {
      await this.kubelet.waitForAllocatable(SOCKETS, this.#options.devices, START_LIMIT_MS);
      if (this.#options.claims !== undefined) await this.dra.waitForDriver(DRIVER, true, START_LIMIT_MS);
    } catch (cause) {
      throw new Error(`the daemon gave no devices: ${await daemon?.logTail()}`, { cause });
    }
  }

  /** Ends the daemon in order; what it keeps on disk stays. */
  async stopDaemon(): Promise<void> {
    await this.#daemon?.stop();
    this.#daemon = undefined;
    // kubelet sees the end of the stream a moment later; a start must not take the old list for its own.
    await this.kubelet.waitForAllocatable(SOCKETS, 0);
    await this.dra.waitForDriver(DRIVER, false);
  }

  /** Resident memory of the daemon now. */
  async daemonMB(): Promise<number> {
    return ((await residentKiB(this.#daemon?.pid ?? -1)) * 1024) / 1e6;
  }

  /** Seconds of a core that the daemon has used since it began. */
  daemonCpuSeconds(): Promise<number> {
    return cpuSeconds(this.#daemon?.pid ?? -1);
  }

  /** A metric of the daemon by its name with labels; NaN while it serves none. */
  async metric(series: string): Promise<number> {
    const url = /"url":"([^"]+)"/.exec(await readFile(this.#daemon?.log ?? "", "utf8"))?.[1];
    if (url === undefined) return Number.NaN;
    const text = await (await fetch(`${url}/metrics`)).text();
    const line = text.split("\n").find((one) => one.startsWith(`${series} `));
    return Number(line?.slice(series.length + 1) ?? Number.NaN);
  }

  /** Restarts the daemon with other times for its passes and for what is abandoned. */
  async setReclaim(reclaim: DaemonConfig["reclaim"]): Promise<void> {
    await this.stopDaemon();
    await writeFile(join(this.directory, "config.json"), JSON.stringify({ ...this.#config(), reclaim }));
    await this.startDaemon();
  }

  /** How many allocations the daemon has records of on disk. */
  async allocations(): Promise<number> {
    return (await readRecords(join(this.directory, "records"))).allocations.length;
  }

  /** The daemon, kubelet and the mounts go. */
  async close(): Promise<void> {
    await this.stopDaemon();
    await this.kubelet.stop();
    await this.dra.stop();
    for (const unmount of this.#unmounts.splice(0)) await unmount();
  }

  /** The executable itself, whose first line says how it is to be run, by this Node. */
  async #spawnDaemon(): Promise<void> {
    this.#lives += 1;
    this.#daemon = await startChild(this.#run, {
      name: `daemon-${this.#options.name}-${this.#lives}`,
      command: join(PROJECT, "dist/daemon/main.mjs"),
      args: ["--config", join(this.directory, "config.json")],
      env: { PATH: `${dirname(process.execPath)}:${process.env["PATH"] ?? ""}` },
    });
  }

  get #pluginsRegistry(): string {
    return join(this.directory, "kubelet/plugins_registry");
  }

  get #serviceAccount(): string {
    return join(this.directory, "token");
  }

  async #startDra(api: FakeApiServer): Promise<void> {
    await mkdir(this.#pluginsRegistry, { recursive: true });
    await writeServiceAccount(this.#serviceAccount, api);
    this.#run.cleanup.defer(`stop DRA of node ${this.name}`, () => this.dra.stop());
    api.store.create("nodes", { metadata: { name: this.name } });
    this.dra.start();
  }

  async #mount(path: string, mount: () => Promise<unknown>): Promise<void> {
    await mkdir(path, { recursive: true });
    const trace = this.#run.journal.note({ kind: "mount", path });
    const unmount = this.#run.cleanup.defer(`unmount ${path}`, async () => {
      await runProgram("umount", ["-l", path]);
      this.#run.journal.strike(trace);
    });
    this.#unmounts.push(unmount);
    await mount();
  }

  #config(): object {
    const { name, dataplane, devices, reclaim, claims } = this.#options;
    const config: Partial<Record<keyof DaemonConfig, unknown>> = {
      node: name,
      root: this.#root,
      recordsDirectory: join(this.directory, "records"),
      cniSocket: this.cniSocket,
      deviceInfoDirectory: this.deviceInfo,
      kubelet: {
        devicePlugins: this.kubelet.paths.pluginDirectory,
        podResources: this.kubelet.paths.podResourcesSocket,
        plugins: join(this.directory, "kubelet/plugins"),
        pluginsRegistry: this.#pluginsRegistry,
      },
      ...(claims && {
        dra: {
          ...{ enabled: true, cdiDirectory: join(this.#tmpfs, "cdi"), apiServer: claims.api.url },
          serviceAccountDirectory: this.#serviceAccount,
        },
      }),
      ...(reclaim === undefined ? {} : { reclaim }),
      observe: { address: "127.0.0.1", port: 0 },
      pools: {
        sockets: {
          ...{ resource: SOCKETS, capacity: devices + (claims?.ports ?? 0), dataplane },
          ...(claims && { claims: { ports: claims.ports } }),
        },
      },
    };
    return config;
  }
}
