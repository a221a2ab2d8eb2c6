import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { rm } from "node:fs/promises";
import { connect, createServer, type Socket } from "node:net";
import { join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { exampleNetwork } from "../cluster/network.ts";
import { cniDeviceInfoFile } from "../stand-in/multus/device-info-files.ts";
import { type Delegate, type SelectedNetwork, toDelegate } from "../stand-in/multus/network.ts";
import { pluginEnvironment, pluginStdin, type Sandbox } from "../stand-in/multus/plugin-input.ts";
import { type BenchNode, SOCKETS } from "./bench-node.ts";
import { residentKiB } from "./process-memory.ts";
import { timeProgram } from "./timed-program.ts";

/** The CNI executable as images have it. */
export const EXECUTABLE = resolve(import.meta.dirname, "../../dist/cni/kube-vhostuser");

/** A pod that kubelet admitted, with the device that it holds. */
export interface BenchPod {
  readonly name: string;
  readonly uid: string;
  readonly device: string;
}

/** A pod's sandbox with its one network; every sandbox is new to the daemon. */
export interface BenchSandbox {
  readonly sandbox: Sandbox;
  readonly delegate: Delegate;
  readonly deviceInfoFile: string;
}

/** Calls our executable as Multus does: same environment, same stdin, nothing around it. */
export class CniCalls {
  readonly #node: BenchNode;
  readonly #network: SelectedNetwork;
  readonly #netns: string;
  #pods = 0;

  private constructor(node: BenchNode, network: SelectedNetwork, netns: string) {
    this.#node = node;
    this.#network = network;
    this.#netns = netns;
  }

  /** With the network of deploy/examples. */
  static async open(node: BenchNode, netns: string): Promise<CniCalls> {
    return new CniCalls(node, await exampleNetwork(), netns);
  }

  /** Has kubelet admit a pod with one device. */
  async admit(): Promise<BenchPod> {
    const name = `pod-${this.#pods++}`;
    const admission = await this.#node.kubelet.admitPod({
      namespace: "bench",
      name,
      containers: [{ name: "c", resources: { [SOCKETS]: 1 } }],
    });
    if (admission.phase === "Failed") throw new Error(`pod ${name}: ${admission.message}`);
    const device = admission.containers[0]?.deviceIds[SOCKETS]?.[0];
    if (device === undefined) throw new Error(`pod ${name} was given no device`);
    return { name, uid: admission.uid, device };
  }

  /** A new sandbox of a pod. */
  sandbox({ name, uid, device }: BenchPod): BenchSandbox {
    const containerId = randomBytes(32).toString("hex");
    const delegate = toDelegate(this.#network, 1, device);
    return {
      sandbox: { pod: { namespace: "bench", name, uid }, containerId, netns: this.#netns },
      delegate,
      deviceInfoFile: cniDeviceInfoFile(join(this.#node.deviceInfo, "cni"), delegate, containerId),
    };
  }

  /** ADD. @returns milliseconds and the result that CHECK is to be given */
  async add(sandbox: BenchSandbox): Promise<{ readonly ms: number; readonly result: unknown }> {
    const { ms, stdout } = await this.#call("ADD", sandbox);
    return { ms, result: JSON.parse(stdout) };
  }

  /** DEL, and the file that Multus would remove. @returns milliseconds of DEL alone */
  async del(sandbox: BenchSandbox): Promise<number> {
    const { ms } = await this.#call("DEL", sandbox);
    await rm(sandbox.deviceInfoFile, { force: true });
    return ms;
  }

  async check(sandbox: BenchSandbox, prevResult: unknown): Promise<number> {
    return (await this.#call("CHECK", sandbox, { prevResult })).ms;
  }

  /**
   * Peak resident memory of the executable over an ADD, in KiB. It gives no memory back, so its peak is what it
   * has while the last byte of the daemon's answer is held back from it.
   */
  async peakKiB(sandbox: BenchSandbox): Promise<number> {
    const socketPath = join(this.#node.directory, "held.sock");
    const held = Promise.withResolvers<() => void>();
    const server = createServer((caller) => holdLastByte(caller, this.#node.cniSocket, held.resolve));
    server.listen(socketPath);
    await once(server, "listening");
    try {
      const pid = Promise.withResolvers<number>();
      const call = this.#call("ADD", sandbox, { socketPath, onSpawn: pid.resolve });
      const release = await Promise.race([
        held.promise,
        call.then(() => Promise.reject(new Error("too early"))),
      ]);
      await delay(20); // what was written to it is read by now
      const peak = await residentKiB(await pid.promise);
      release();
      await call;
      return peak;
    } finally {
      await new Promise((done) => server.close(done));
    }
  }

  #call(
    verb: "ADD" | "DEL" | "CHECK",
    { sandbox, delegate, deviceInfoFile }: BenchSandbox,
    options: {
      readonly prevResult?: unknown;
      readonly socketPath?: string;
      readonly onSpawn?: (pid: number) => void;
    } = {},
  ) {
    const [plugin] = delegate.plugins;
    if (plugin === undefined) throw new Error(`${delegate.id}: no plugin`);
    const { prevResult } = options;
    const env = pluginEnvironment({
      verb: verb === "DEL" ? "DEL" : "ADD",
      sandbox,
      delegate,
      cniPath: "/opt/cni/bin",
    });
    return timeProgram({
      command: EXECUTABLE,
      env: {
        PATH: "/usr/bin:/bin",
        ...env,
        CNI_COMMAND: verb,
        KUBE_VHOSTUSER_CNI_SOCKET: options.socketPath ?? this.#node.cniSocket,
      },
      input: JSON.stringify(pluginStdin({ delegate, plugin, deviceInfoFile, prevResult })),
      ...(options.onSpawn === undefined ? {} : { onSpawn: options.onSpawn }),
    });
  }
}

/** A proxy before the daemon that passes all of the answer but its last byte, and a way to release it. */
function holdLastByte(caller: Socket, daemonSocket: string, onHeld: (release: () => void) => void): void {
  const daemon = connect(daemonSocket);
  const answer: Buffer[] = [];
  caller.on("data", (bytes) => daemon.write(bytes));
  daemon.on("data", (bytes) => answer.push(bytes));
  daemon.on("end", () => {
    const whole = Buffer.concat(answer);
    caller.write(whole.subarray(0, -1), () => onHeld(() => caller.end(whole.subarray(-1))));
  });
  daemon.on("error", () => caller.destroy());
  caller.on("error", () => daemon.destroy());
}
