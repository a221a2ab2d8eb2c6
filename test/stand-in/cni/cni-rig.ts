import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { answer } from "../../../src/cni/answer.ts";
import type { CniContext } from "../../../src/cni/cni-context.ts";
import { type CniServer, serveCni } from "../../../src/cni/server.ts";
import { StaleRequestFilter } from "../../../src/cni/stale-requests.ts";
import { parseConfig } from "../../../src/config/load.ts";
import type { Dataplane } from "../../../src/dataplane/dataplane.ts";
import { createAllocator } from "../../../src/device-plugin/allocate.ts";
import { type Logger, silentLogger } from "../../../src/logging/logger.ts";
import { Pools } from "../../../src/pools/pools.ts";
import { repairPort } from "../../../src/reconcile/repair-ports.ts";
import { openRecords, type Records } from "../../../src/records/records.ts";
import type { Clock } from "../../../src/sync/clock.ts";
import { systemClock } from "../../../src/sync/clock.ts";
import { KeyedMutex } from "../../../src/sync/keyed-mutex.ts";
import { MemoryDataplane } from "../dataplane/memory-dataplane.ts";
import { unobserved } from "../reconcile/unobserved.ts";
import { runShim, type ShimEnd, type ShimRun } from "./shim-client.ts";

/** Device of calls that name no other. */
export const DEVICE = "sockets-00001";
/** Network namespace of every call. */
export const NETNS = "/var/run/netns/x";

/** One verb; what is left out is an ordinary one of a pod that Multus attaches. */
export interface RigCall {
  readonly container?: string;
  readonly ifname?: string;
  /** Keys beside the usual ones; a text or bytes are the whole stdin. */
  readonly config?: object | string | Buffer;
  /** CNI variables that differ; undefined leaves one out. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly shim?: Pick<ShimRun, "diesAt">;
}

/** What the runtime gets, parsed. */
export interface RigAnswer {
  readonly exitCode: number;
  readonly json: Record<string, unknown> | undefined;
}

/** What is not as usual. */
export interface CniRigOptions {
  /** Keys of the pool beside the usual ones. */
  readonly pool?: Readonly<Record<string, unknown>>;
  /** Another switch than the one in memory, which the rig does not close. */
  readonly dataplane?: Dataplane;
  /** What replaces the CNI executable; default the stand-in. */
  readonly execute?: (run: ShimRun) => Promise<ShimEnd>;
  /** Default one that writes nothing. */
  readonly logger?: Logger;
}

/** The daemon's CNI side with everything but the switch real: records, directories, the socket, plugins that are run. */
export class CniRig {
  readonly top: string;
  /** Where plugins are installed; every call's CNI_PATH. */
  readonly binDir: string;
  /** The switch, unless another was given. */
  readonly dataplane = new MemoryDataplane();
  /** Devices that kubelet says each pod holds. */
  held: readonly string[] = [DEVICE, "sockets-00002", "sockets-00003"];
  /** Milliseconds that the daemon's clock is ahead of the machine's. */
  aheadMs = 0;
  /** How many times faster than the machine's time what waits for the daemon's clock ends. */
  haste = 1;
  /** What has to be so before that ends. */
  notBefore: () => Promise<unknown> = async () => undefined;
  /** The machine's time where it is not to pass, in milliseconds since the epoch. */
  stoppedAt: number | undefined;
  readonly #options: CniRigOptions;
  #records: Records | undefined;
  #context: CniContext | undefined;
  #server: CniServer | undefined;
  #allocate: ((devices: readonly string[]) => Promise<unknown>) | undefined;

  private constructor(top: string, options: CniRigOptions) {
    this.top = top;
    this.binDir = join(top, "bin");
    this.#options = options;
  }

  static async open(options: CniRigOptions = {}): Promise<CniRig> {
    const rig = new CniRig(await mkdtemp(join(tmpdir(), "kvu-cni-")), options);
    await mkdir(join(rig.top, "run"));
    await mkdir(rig.binDir);
    await rig.start();
    return rig;
  }

  async close(): Promise<void> {
    await this.stop();
    await rm(this.top, { recursive: true });
  }

  get records(): Records {
    return started(this.#records);
  }

  get context(): CniContext {
    return started(this.#context);
  }

  /** Reads everything again from disk, as a restarted daemon does; what ran in the old one continues without effect. */
  async start(): Promise<void> {
    await this.stop();
    const config = parseConfig(JSON.stringify(this.#config()), "test");
    const records = await openRecords(config.recordsDirectory);
    const [pool] = config.pools;
    if (pool === undefined) throw new Error("no pool");
    const dataplane = this.#switch;
    const { logger = silentLogger } = this.#options;
    const clock: Clock = {
      now: () => (this.stoppedAt ?? Date.now()) + this.aheadMs,
      monotonic: () => (this.stoppedAt ?? Date.now()) + this.aheadMs,
      sleep: async (ms, signal) => {
        await Promise.all([systemClock.sleep(ms / this.haste, signal), this.notBefore()]);
      },
    };
    const context: CniContext = {
      node: {
        config,
        records,
        pools: new Pools({
          pools: config.pools,
          allocations: records.allocations,
          open: () => dataplane,
          logger,
        }),
      },
      locks: new KeyedMutex(),
      stale: new StaleRequestFilter(),
      clock,
      logger,
      holders: {
        holds: async (_namespace, _name, device) => this.held.includes(device),
        devicesOf: async () => this.held,
      },
    };
    this.#records = records;
    this.#context = context;
    this.#allocate = createAllocator({
      pool,
      places: config,
      allocations: records.allocations,
      clock: systemClock,
      logger,
    });
    this.#server = await serveCni({
      socketPath: this.socketPath,
      logger,
      clock,
      answer: (request, signal) => answer(request, context, signal),
    });
  }

  async stop(): Promise<void> {
    await this.#server?.close();
    this.#server = undefined;
  }

  get socketPath(): string {
    return join(this.top, "cni.sock");
  }

  async allocate(...devices: readonly string[]): Promise<void> {
    await started(this.#allocate)(devices);
  }

  /** Runs a verb through the socket. @throws NoAnswer */
  async call(verb: string, call: RigCall = {}): Promise<RigAnswer> {
    const { exitCode, stdout } = await this.run(verb, call);
    return { exitCode, json: stdout === "" ? undefined : JSON.parse(stdout) };
  }

  /** The same with the raw answer. */
  run(verb: string, call: RigCall = {}): Promise<ShimEnd> {
    const { execute = runShim } = this.#options;
    return execute({
      socketPath: this.socketPath,
      env: this.environment(verb, call),
      stdin: this.stdin(call),
      ...call.shim,
    });
  }

  /** The CNI variables of a call. */
  environment(verb: string, { container = "c1", ifname = "net1", env = {} }: RigCall = {}) {
    const all: Readonly<Record<string, string | undefined>> = {
      CNI_COMMAND: verb,
      CNI_CONTAINERID: container,
      CNI_IFNAME: ifname,
      CNI_NETNS: NETNS,
      CNI_PATH: `/nonexistent:${this.binDir}`,
      CNI_ARGS: "IgnoreUnknown=1;K8S_POD_NAMESPACE=ns;K8S_POD_NAME=pod;K8S_POD_UID=u-1",
      ...env,
    };
    return Object.fromEntries(
      Object.entries(all).filter((entry): entry is [string, string] => entry[1] !== undefined),
    );
  }

  /** What a call reads from stdin. */
  stdin({ config = {} }: RigCall = {}): string | Buffer {
    if (typeof config === "string" || Buffer.isBuffer(config)) return config;
    const usual = { cniVersion: "1.1.0", name: "net", type: "kube-vhostuser", deviceID: DEVICE };
    return JSON.stringify({ ...usual, ...config });
  }

  /** The reconciler's stages for ports. @returns what it reports as repaired */
  async reconcile(): Promise<readonly string[]> {
    const repaired: string[] = [];
    const scope = {
      ...this.context,
      context: this.context.node,
      places: this.context.node.config,
      stop: new AbortController().signal,
      observer: { ...unobserved, repaired: (kind: string) => repaired.push(kind) },
    };
    for (const record of this.records.ports.list()) await repairPort(scope, record).catch(() => undefined);
    return repaired;
  }

  /** `<container> <interface> <state>` of every record of an attachment. */
  states(): readonly string[] {
    return this.records.ports
      .list()
      .map(({ containerId, interfaceName, state }) => `${containerId} ${interfaceName} ${state}`)
      .sort();
  }

  /** Owners of the switch's ports: `<container> <interface>`. */
  ports(): readonly string[] {
    return [...this.dataplane.ports.values()]
      .map(({ owner }) => `${owner.containerId} ${owner.interfaceName}`)
      .sort();
  }

  /** The same of whatever switch it is. */
  async portsOfSwitch(): Promise<readonly string[]> {
    const ports = await this.#switch.listPorts(AbortSignal.timeout(60_000));
    return ports.map(({ owner }) => `${owner.containerId} ${owner.interfaceName}`).sort();
  }

  get #switch(): Dataplane {
    return this.#options.dataplane ?? this.dataplane;
  }

  #config(): object {
    return {
      node: "n1",
      root: join(this.top, "run"),
      recordsDirectory: join(this.top, "records"),
      deviceInfoDirectory: join(this.top, "devinfo"),
      pools: {
        sockets: {
          resource: "vhostuser/sockets",
          capacity: 4,
          dataplane: { type: "ovs-dpdk", bridge: "br0" },
          ...this.#options.pool,
        },
      },
    };
  }
}

function started<Part>(part: Part | undefined): Part {
  if (part === undefined) throw new Error("the rig has not been started");
  return part;
}
