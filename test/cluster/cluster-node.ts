import { mkdir, readdir, writeFile } from "node:fs/promises";
import { delimiter, dirname, join, resolve } from "node:path";
import type { DaemonConfig } from "../../src/config/schema.ts";
import { mountRoot } from "../../src/node-setup/mount-root/mount-root.ts";
import { readRecords } from "../../src/records/records.ts";
import { type Child, startChild } from "../machine/child.ts";
import type { LabRun } from "../machine/lab-run.ts";
import { runProgram } from "../machine/run-program.ts";
import { waitUntil } from "../machine/wait-until.ts";
import type { FakeApiServer } from "../stand-in/api-server/fake-api-server.ts";
import { writeServiceAccount } from "../stand-in/api-server/service-account.ts";
import { StandInDraManager } from "../stand-in/kubelet/dra-manager.ts";
import { StandInKubelet } from "../stand-in/kubelet/kubelet.ts";
import { StandInMultus } from "../stand-in/multus/multus.ts";
import { NodeAgent } from "./bundled-ipam.ts";

/** Resource of the node's pool. */
export const SOCKETS = "vhostuser/sockets";
/** The DaemonSet's pod on each node. */
const DAEMON_POD = { namespace: "kube-vhostuser", name: "kube-vhostuser-x7k2p" };
/** Where Debian's containernetworking-plugins has its executables. */
export const IPAM_PLUGINS = "/usr/lib/cni";
const PROJECT = resolve(import.meta.dirname, "../..");
/** The daemon as built for images. */
export const DAEMON_PROGRAM = join(PROJECT, "dist/daemon/main.mjs");

/** A node's place and its pool's bridge. */
export interface ClusterNodeOptions {
  /** Short, for example `a`: unix sockets lie below it. */
  readonly name: string;
  readonly bridge: string;
  readonly databaseSocket: string;
  /** Keys of the pool beside those that the node sets itself, for example `directory`. */
  readonly pool?: Readonly<Record<string, unknown>>;
  /** Further pools, of other switches for example. */
  readonly otherPools?: Readonly<Record<string, object>>;
  /** Devices of the pool; default 8. */
  readonly capacity?: number;
  /** Ports of the pool for claims, beside its devices, and the API server that has the claims. */
  readonly claims?: { readonly ports: number; readonly api: Pick<FakeApiServer, "url" | "ca"> };
  /** Default: a check twice a second, abandoned after three seconds. A cluster waits minutes; the lab does not. */
  readonly reclaim?: DaemonConfig["reclaim"];
  /** Whether guests that come up are announced to the network; default true, as in production. */
  readonly announce?: boolean;
  /** When the switch reconnects to VMs whose guest was never seen; default that of the product. */
  readonly reconnectSilentAfterSeconds?: number;
  /** TCP port of its status page; none where it is left out. */
  readonly statusPagePort?: number;
  /** Keys of the configuration beside those that the node sets itself, for example `events`. */
  readonly keys?: Readonly<Partial<Record<keyof DaemonConfig, unknown>>>;
  /** What the daemon is started through, for example setpriv with its arguments. */
  readonly daemonPrefix?: readonly string[];
  /** Where the runtime looks for further CNI plugins, such as those for IPAM. */
  readonly cniPath?: string;
  /** The API server of the node's IPAM agent, which serves managed claims; without it there is no agent. */
  readonly ipam?: Pick<FakeApiServer, "url" | "ca">;
}

/**
 * One node of the cluster: kubelet and Multus stand-ins, and the product's daemon and CNI executable as
 * built for images, each in a directory of the node's own.
 */
export class ClusterNode {
  readonly name: string;
  readonly directory: string;
  /** The daemon's configuration. */
  readonly configFile: string;
  /** Host directory of all allocations, a tmpfs with the flags that production has. */
  readonly root: string;
  readonly kubelet: StandInKubelet;
  readonly multus: StandInMultus;
  /** The part of kubelet that calls DRA drivers, where the node has one. */
  readonly dra: StandInDraManager;
  /** Directory of CDI files. */
  readonly cdiDirectory: string;
  /** Socket that the CNI executable is to talk to. */
  readonly cniSocket: string;
  /** Directory of device-info files, with dp/ and cni/ in it. */
  readonly deviceInfoDirectory: string;
  /** Directory of the daemon's records, with allocations/ and ports/ in it. */
  readonly recordsDirectory: string;
  /** Directory of the daemon's token. */
  readonly serviceAccountDirectory: string;
  /** Undefined where the node has no IPAM of ours. */
  readonly agent: NodeAgent | undefined;
  readonly #run: LabRun;
  readonly #daemonPrefix: readonly string[];
  readonly #capacity: number;
  #daemon: Child | undefined;
  #lives = 0;

  private constructor(run: LabRun, options: ClusterNodeOptions) {
    this.#run = run;
    this.#daemonPrefix = options.daemonPrefix ?? [];
    this.name = options.name;
    this.directory = join(run.directory, options.name);
    this.root = join(this.directory, "vhu");
    this.recordsDirectory = join(this.directory, "records");
    this.cniSocket = join(this.directory, "cni.sock");
    this.deviceInfoDirectory = join(this.directory, "devinfo");
    this.#capacity = options.capacity ?? 8;
    this.configFile = join(this.directory, "config.json");
    this.kubelet = StandInKubelet.create({ root: join(this.directory, "kubelet") });
    this.dra = new StandInDraManager(this.#kubeletDirectory("plugins_registry"));
    this.cdiDirectory = join(this.directory, "cdi");
    this.serviceAccountDirectory = join(this.directory, "token");
    this.agent = options.ipam && new NodeAgent(run, options.ipam, options.name, "managed");
    const devinfo = this.deviceInfoDirectory;
    this.multus = new StandInMultus({
      cniBinDir: join(PROJECT, "dist/cni"),
      podResourcesSocket: this.kubelet.paths.podResourcesSocket,
      deviceInfo: { devicePlugin: join(devinfo, "dp"), cni: join(devinfo, "cni") },
      cacheDirectory: join(this.directory, "multus"),
      // With the IPAM plugins: the next executable is asked to release what is left of others.
      runtimeEnv: {
        PATH: "/usr/bin:/bin",
        CNI_PATH: options.cniPath ?? IPAM_PLUGINS,
        KUBE_VHOSTUSER_CNI_SOCKET: this.cniSocket,
        ...(this.agent && { KUBE_VHOSTUSER_IPAM_SOCKET: this.agent.socket }),
      },
    });
  }

  /** Starts kubelet, then the daemon, and waits until kubelet has healthy devices to give. */
  static async start(run: LabRun, options: ClusterNodeOptions): Promise<ClusterNode> {
    const node = new ClusterNode(run, options);
    await mkdir(node.root, { recursive: true });
    await mountNodeRoot(run, node.root);
    await writeFile(node.configFile, JSON.stringify(node.#config(options)));
    if (options.claims !== undefined) await node.#startDra(options.claims.api);
    await node.agent?.start();
    await node.kubelet.start();
    await node.kubelet.admitPod({ ...DAEMON_POD, containers: [{ name: "daemon" }] });
    run.cleanup.defer(`stop kubelet of node ${node.name}`, () => node.kubelet.stop());
    await node.startDaemon();
    return node;
  }

  /** Starts the daemon and waits until kubelet has healthy devices to give. */
  async startDaemon(): Promise<void> {
    this.#lives += 1;
    // Kubelet may still show the devices of the ended daemon.
    const registrations = () =>
      this.kubelet.registrations.filter(({ resource }) => resource === SOCKETS).length;
    const before = registrations();
    // By its own first line, which has the flags that it runs with in its image; that finds node in PATH.
    const [command = DAEMON_PROGRAM, ...args] = [...this.#daemonPrefix, DAEMON_PROGRAM];
    const path = `${dirname(process.execPath)}${delimiter}${process.env["PATH"] ?? ""}`;
    const daemon = await startChild(this.#run, {
      name: `daemon-${this.name}-${this.#lives}`,
      command,
      env: { POD_NAMESPACE: DAEMON_POD.namespace, POD_NAME: DAEMON_POD.name, PATH: path },
      args: [...args, "--config", this.configFile, "--log-level", "debug"],
    });
    this.#daemon = daemon;
    await waitUntil(
      async () => {
        if (!daemon.isRunning()) throw new Error(`the daemon ended: ${await daemon.logTail()}`);
        return registrations() > before && this.kubelet.capacity(SOCKETS)?.allocatable === this.#capacity;
      },
      { what: `node ${this.name} has devices`, signal: this.#run.cleanup.signal },
    );
  }

  /** Waits until kubelet has all devices to give. */
  untilHealthy(): Promise<void> {
    return this.kubelet.waitForAllocatable(SOCKETS, this.#capacity, 60_000);
  }

  /** SIGTERM, as when the DaemonSet replaces its pod. */
  async stopDaemon(): Promise<void> {
    await this.#daemon?.stop();
  }

  /** SIGKILL, as in a crash. */
  async killDaemon(): Promise<void> {
    this.#daemon?.kill("SIGKILL");
    await this.#daemon?.ended;
  }

  /** Whether the daemon's process is there. */
  get isDaemonRunning(): boolean {
    return this.#daemon?.isRunning() === true;
  }

  /** The daemon's process. */
  get daemonPid(): number {
    return this.#daemon?.pid ?? -1;
  }

  /** The daemon's log of its present life. */
  get daemonLog(): string {
    return this.#daemon?.log ?? "";
  }

  /** What is left of allocations and attachments on this node. */
  async leftovers(): Promise<{ readonly directories: number; readonly records: number }> {
    const directories = await readdir(this.root).catch(() => []);
    const { allocations, ports } = await readRecords(this.recordsDirectory);
    return { directories: directories.length, records: allocations.length + ports.length };
  }

  #kubeletDirectory(name: string): string {
    return join(this.directory, "kubelet", name);
  }

  async #startDra(api: Pick<FakeApiServer, "ca">): Promise<void> {
    await mkdir(this.#kubeletDirectory("plugins_registry"), { recursive: true });
    await writeServiceAccount(this.serviceAccountDirectory, api);
    this.dra.start();
    this.#run.cleanup.defer(`stop DRA of node ${this.name}`, () => this.dra.stop());
  }

  #config(options: ClusterNodeOptions): object {
    const { databaseSocket, bridge, statusPagePort: port, claims } = options;
    const { cdiDirectory, serviceAccountDirectory } = this;
    const apiServer = claims?.api.url;
    const config: Partial<Record<keyof DaemonConfig, unknown>> = {
      node: this.name,
      root: this.root,
      recordsDirectory: this.recordsDirectory,
      cniSocket: this.cniSocket,
      deviceInfoDirectory: this.deviceInfoDirectory,
      kubelet: {
        devicePlugins: this.kubelet.paths.pluginDirectory,
        podResources: this.kubelet.paths.podResourcesSocket,
        plugins: this.#kubeletDirectory("plugins"),
        pluginsRegistry: this.#kubeletDirectory("plugins_registry"),
      },
      ...(claims && {
        dra: { enabled: true, cdiDirectory, apiServer, serviceAccountDirectory, ipamPlugins: IPAM_PLUGINS },
      }),
      observe: { address: "127.0.0.1", port: 0 },
      ...(port === undefined ? {} : { statusPage: { enabled: true, port } }),
      reclaim: options.reclaim ?? { intervalSeconds: 0.5, graceSeconds: 3 },
      announce: options.announce ?? true,
      reconnectSilentAfterSeconds: options.reconnectSilentAfterSeconds,
      pools: {
        sockets: {
          resource: SOCKETS,
          capacity: this.#capacity + (claims?.ports ?? 0),
          ...(claims && { claims: { ports: claims.ports } }),
          dataplane: { type: "ovs-dpdk", database: databaseSocket, bridge },
          ...options.pool,
        },
        ...options.otherPools,
      },
      ...options.keys,
    };
    return config;
  }
}

/** Through the product's privileged step. */
async function mountNodeRoot(run: LabRun, root: string): Promise<void> {
  const trace = run.journal.note({ kind: "mount", path: root });
  run.cleanup.defer(`unmount ${root}`, async () => {
    await runProgram("umount", ["-l", root]);
    run.journal.strike(trace);
  });
  await mountRoot({ root, sizeMiB: 16 });
}
