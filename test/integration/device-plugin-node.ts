import { lstat, mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { type Child, startChild } from "../machine/child.ts";
import type { LabRun } from "../machine/lab-run.ts";
import { runProgram } from "../machine/run-program.ts";
import { waitUntil } from "../machine/wait-until.ts";
import { poolsByName } from "../stand-in/config/pools-by-name.ts";
import { StandInKubelet } from "../stand-in/kubelet/kubelet.ts";

const DAEMON = resolve(import.meta.dirname, "../../dist/daemon/main.mjs");

/** The daemon's own pod. */
const OWN_POD = { namespace: "kube-system", name: "daemon" };

/** A pool as the configuration file has it. */
export type PoolText = { readonly name: string } & Readonly<Record<string, unknown>>;

/** What a pod sees of one directory that it got, as the node has it. */
export interface SeenDirectory {
  readonly hostPath: string;
  readonly containerPath: string;
  readonly owner: number;
  readonly group: number;
  readonly mode: string;
}

/** One node: the daemon as built for images, kubelet's stand-in, and a root that a reboot empties. */
export class DevicePluginNode {
  readonly kubelet: StandInKubelet;
  readonly root: string;
  readonly #run: LabRun;
  readonly #configFile: string;
  readonly #database: string;
  #lives = 0;

  private constructor(run: LabRun, database: string) {
    this.#run = run;
    this.#database = database;
    this.root = join(run.directory, "vhu");
    this.#configFile = join(run.directory, "config.json");
    this.kubelet = StandInKubelet.create({ root: join(run.directory, "kubelet") });
  }

  /** Mounts the root and starts kubelet, but no daemon. */
  static async start(run: LabRun, database: string): Promise<DevicePluginNode> {
    const node = new DevicePluginNode(run, database);
    await mkdir(node.root, { recursive: true });
    await node.#mountRoot();
    const trace = run.journal.note({ kind: "mount", path: node.root });
    run.cleanup.defer("unmount the root", async () => {
      await runProgram("umount", ["-l", node.root]);
      run.journal.strike(trace);
    });
    await node.kubelet.start();
    run.cleanup.defer("stop kubelet", () => node.kubelet.stop());
    // The daemon takes a list of kubelet's for complete when it is in it itself.
    await node.kubelet.admitPod({ ...OWN_POD, containers: [{ name: "node" }] });
    return node;
  }

  /** Writes the configuration file: these pools, and nothing else that is not the same for ever. */
  async configure(...pools: readonly PoolText[]): Promise<void> {
    const filled = pools.map(({ bridge = "br0", ...pool }) => ({
      resource: `vhostuser/${pool.name}`,
      capacity: 4,
      dataplane: { type: "ovs-dpdk", database: this.#database, bridge },
      ...pool,
    }));
    const { devicePlugins, podResources } = {
      devicePlugins: this.kubelet.paths.pluginDirectory,
      podResources: this.kubelet.paths.podResourcesSocket,
    };
    await this.writeConfig(
      JSON.stringify({
        node: "n1",
        root: this.root,
        recordsDirectory: join(this.#run.directory, "records"),
        cniSocket: join(this.#run.directory, "cni.sock"),
        deviceInfoDirectory: join(this.#run.directory, "devinfo"),
        kubelet: { devicePlugins, podResources },
        reclaim: { intervalSeconds: 0.3, graceSeconds: 1 },
        // Any free one: another run on this machine has its daemon too.
        observe: { address: "127.0.0.1", port: 0 },
        pools: poolsByName(...filled),
      }),
    );
  }

  /** In one step: the daemon never reads a half of it. */
  async writeConfig(text: string): Promise<void> {
    await writeFile(`${this.#configFile}.new`, text);
    await rename(`${this.#configFile}.new`, this.#configFile);
  }

  /** Starts a daemon, whatever else runs. */
  startDaemon(): Promise<Child> {
    return startChild(this.#run, {
      name: `daemon-${++this.#lives}`,
      command: process.execPath,
      args: [DAEMON, "--config", this.#configFile],
      env: { POD_NAMESPACE: OWN_POD.namespace, POD_NAME: OWN_POD.name },
    });
  }

  /** Does something and waits until the daemon has a new line with this in its log. @returns the line */
  async untilLogged(daemon: Child, part: string, action: () => Promise<unknown>): Promise<string> {
    const before = (await readFile(daemon.log, "utf8")).length;
    await action();
    let line = "";
    await waitUntil(
      async () => {
        const lines = (await readFile(daemon.log, "utf8")).slice(before).split("\n");
        line = lines.find((candidate) => candidate.includes(part)) ?? "";
        return line !== "";
      },
      { what: `the daemon's log says ${JSON.stringify(part)}` },
    );
    return line;
  }

  /** Every directory that a running pod's container has mounted, as the node sees it. */
  async mounts(name: string): Promise<readonly SeenDirectory[]> {
    const containers = this.kubelet.containers({ namespace: "ns", name });
    const mounts = containers.flatMap((container) => container.mounts);
    // kubelet joins the answers of several resources in arbitrary order.
    mounts.sort((one, other) => one.hostPath.localeCompare(other.hostPath));
    return Promise.all(
      mounts.map(async ({ hostPath, containerPath }) => {
        const { uid, gid, mode } = await lstat(hostPath);
        return { hostPath, containerPath, owner: uid, group: gid, mode: mode.toString(8) };
      }),
    );
  }

  /** Everything below a pod's directories: path, owner, group, mode, inode. */
  async tree(name: string): Promise<readonly string[]> {
    const paths = (await this.mounts(name)).map(({ hostPath }) => hostPath);
    const { stdout } = await runProgram("find", [...paths, "-printf", "%p %U:%G %m %i\\n"]);
    return stdout.split("\n").filter(Boolean).sort();
  }

  /** The node goes down and comes up: the root is empty, processes are gone, what is on disk is not. */
  async reboot(daemon: Child): Promise<void> {
    await this.kubelet.reboot(async () => {
      await daemon.stop("SIGKILL");
      await runProgram("umount", ["-l", this.root]);
      await this.#mountRoot();
    });
  }

  async #mountRoot(): Promise<void> {
    const flags = "size=16m,nr_inodes=0,mode=0755,nosuid,nodev,noexec,nosymfollow";
    await runProgram("mount", ["-t", "tmpfs", "-o", flags, "vhostuser", this.root]);
  }
}
