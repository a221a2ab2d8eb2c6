import { lstat, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { ClusterNode } from "../cluster/cluster-node.ts";
import { waitUntil } from "../machine/wait-until.ts";
import { type AttachedPod, said } from "./isolation-pod.ts";
import type { UserSwitch } from "./isolation-switch.ts";

/** A program as DPDK's, with the usual umask, that reports when a client connects or goes. @param path a JavaScript expression */
export const serverAt = (path: string): string => `
  process.umask(0o022);
  net.createServer((client) => {
    say("connected");
    client.on("error", () => {}).on("data", () => {}).on("close", () => say("closed"));
  }).listen(${path}, () => say("listening"));`;
/** The same at the socket of the pod's interface. */
export const server = (directory: string): string => serverAt(`"${directory}/net1/vhost.sock"`);

/** What others on a node could notice of an attack; all is 0 where they noticed nothing. */
export interface Noticed {
  /** Times that the switch left the neighbour's socket, and replacements of the socket. */
  readonly lostConnections: number;
  readonly replacedSockets: number;
  readonly failedAllocates: number;
  readonly failedPasses: number;
  /** Answers of /livez other than 200. */
  readonly notLive: number;
}

/** A pod beside those that attack: the switch is connected to its socket all the time. */
export class Neighbour {
  readonly pod: AttachedPod;
  readonly #node: ClusterNode;
  readonly #log: string;
  readonly #inode: bigint;
  /** Passes that failed before: only what came since is noticed. */
  readonly #failedBefore: number;
  readonly #stop = new AbortController();
  readonly #watching: Promise<void>;
  #notLive = 0;

  private constructor(node: ClusterNode, pod: AttachedPod, log: string, inode: bigint, failedBefore: number) {
    this.#node = node;
    this.#failedBefore = failedBefore;
    this.pod = pod;
    this.#log = log;
    this.#inode = inode;
    this.#watching = this.#watchProbe();
  }

  /** Starts its program, and begins to watch. */
  static async start(node: ClusterNode, pod: AttachedPod): Promise<Neighbour> {
    const { log } = await connectedProgram(pod);
    return new Neighbour(node, pod, log, await socketInode(pod), failedPasses(await metricsOf(node)));
  }

  /** What was noticed since the start. */
  async noticed(): Promise<Noticed> {
    const log = await readFile(this.#log, "utf8");
    const metrics = await this.metrics();
    return {
      lostConnections: log.split("closed").length - 1,
      replacedSockets: (await socketInode(this.pod)) === this.#inode ? 0 : 1,
      failedAllocates: sum(metrics, /^vhostuser_allocations_total\{(?!.*code="ok").* (\d+)$/gm),
      failedPasses: failedPasses(metrics) - this.#failedBefore,
      notLive: this.#notLive,
    };
  }

  /** Waits until the reconciler has begun and ended a pass, whatever its outcome. */
  async untilNextPass(): Promise<void> {
    const passes = async () =>
      sum(await this.metrics(), /^vhostuser_reconcile_passes_total\{outcome="\w+"\} (\d+)$/gm);
    const before = await passes();
    await waitUntil(async () => (await passes()) > before + 1, { what: "a pass of the reconciler" });
  }

  metrics(): Promise<string> {
    return metricsOf(this.#node);
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#watching;
  }

  async #watchProbe(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      const { status } = await fetch(`${await urlOf(this.#node)}/livez`);
      if (status !== 200) this.#notLive += 1;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}

/** Another pod comes, gets its socket connected, has a port restored that another program removed, and goes. */
export async function visit(pod: AttachedPod, ovs: UserSwitch): Promise<void> {
  await connectedProgram(pod);
  const socket = `options:vhost-server-path="${join(pod.hostDirectory, "net1", "vhost.sock")}"`;
  const rows = (column: string) =>
    ovs.vsctl("--no-wait", "--bare", `--columns=${column}`, "find", "Interface", socket);
  const before = await rows("_uuid");
  await ovs.vsctl("--no-wait", "del-port", await rows("name"));
  const isRestored = async () => !["", before].includes(await rows("_uuid"));
  await waitUntil(isRestored, { what: "the port is restored" });
  await pod.remove();
}

async function connectedProgram(pod: AttachedPod): Promise<{ readonly log: string }> {
  const program = await pod.run("program", server(pod.directory));
  await said(program, "connected");
  return program;
}

async function socketInode(pod: AttachedPod): Promise<bigint> {
  return (await lstat(join(pod.hostDirectory, "net1", "vhost.sock"), { bigint: true })).ino;
}

function sum(text: string, values: RegExp): number {
  return [...text.matchAll(values)].reduce((total, [, value]) => total + Number(value), 0);
}

function failedPasses(metrics: string): number {
  return sum(metrics, /^vhostuser_reconcile_passes_total\{outcome="failed"\} (\d+)$/gm);
}

async function metricsOf(node: ClusterNode): Promise<string> {
  return (await fetch(`${await urlOf(node)}/metrics`)).text();
}

async function urlOf(node: ClusterNode): Promise<string> {
  const log = await readFile(node.daemonLog, "utf8");
  return /"url":"(http:[^"]+)","msg":"serving metrics and probes"/.exec(log)?.[1] ?? "";
}
