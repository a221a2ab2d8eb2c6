import { randomBytes } from "node:crypto";
import { resolve } from "node:path";
import { waitUntil } from "../machine/wait-until.ts";
import { type TimedRun, timeProgram, timeWork } from "./timed-program.ts";

/** Our IPAM executable as images have it. */
export const IPAM_EXECUTABLE = resolve(import.meta.dirname, "../../dist/cni/kube-vhostuser-ipam");

const READY_LIMIT_MS = 60_000;

/** An IPAM plugin, and the configuration of a network that uses it. */
export interface IpamPlugin {
  readonly command: string;
  /** Added to what every IPAM plugin gets. */
  readonly env?: Readonly<Record<string, string>>;
  /** The `ipam` section. */
  readonly ipam: Readonly<Record<string, unknown>>;
  /** Of the network, beside that section. */
  readonly config?: Readonly<Record<string, unknown>>;
}

/** A sandbox that wants one address. */
export interface IpamSandbox {
  readonly containerId: string;
  readonly pod: string;
}

/** ADD and DEL of several sandboxes that start together, in milliseconds until the last is done. */
export interface AllAtOnce {
  readonly addMs: number;
  readonly delMs: number;
}

/** Calls an IPAM executable as a plugin that delegates to it does. */
export class IpamCalls {
  readonly #plugin: IpamPlugin;
  readonly #netns: string;
  #sandboxes = 0;

  /** @param netns path of a network namespace that is there, which all sandboxes name */
  constructor(plugin: IpamPlugin, netns: string) {
    this.#plugin = plugin;
    this.#netns = netns;
  }

  sandbox(): IpamSandbox {
    this.#sandboxes += 1;
    return { containerId: randomBytes(32).toString("hex"), pod: `pod-${this.#sandboxes}` };
  }

  /** @returns milliseconds @throws Error where no address was given */
  async add(sandbox: IpamSandbox): Promise<number> {
    const { ms, stdout } = await this.#call("ADD", sandbox);
    const { ips = [] } = JSON.parse(stdout) as { readonly ips?: readonly unknown[] };
    if (ips.length !== 1) throw new Error(`${this.#plugin.command}: ${stdout}`);
    return ms;
  }

  /** @returns milliseconds */
  async del(sandbox: IpamSandbox): Promise<number> {
    return (await this.#call("DEL", sandbox)).ms;
  }

  /** Waits until STATUS says that ADD could succeed. */
  async untilReady(): Promise<void> {
    const isReady = () =>
      this.#call("STATUS", this.sandbox(), "1.1.0").then(
        () => true,
        () => false,
      );
    await waitUntil(isReady, {
      what: `${this.#plugin.command} is ready`,
      limitMs: READY_LIMIT_MS,
      everyMs: 20,
    });
  }

  /** An ADD and its DEL. */
  async alone(): Promise<AllAtOnce> {
    const sandbox = this.sandbox();
    return { addMs: await this.add(sandbox), delMs: await this.del(sandbox) };
  }

  /** ADD of so many sandboxes, then DEL of all of them. */
  async atOnce(count: number): Promise<AllAtOnce> {
    const sandboxes = Array.from({ length: count }, () => this.sandbox());
    const addMs = await timeWork(() => Promise.all(sandboxes.map((sandbox) => this.add(sandbox))));
    return { addMs, delMs: await timeWork(() => Promise.all(sandboxes.map((sandbox) => this.del(sandbox)))) };
  }

  #call(
    verb: "ADD" | "DEL" | "STATUS",
    { containerId, pod }: IpamSandbox,
    cniVersion = "1.0.0",
  ): Promise<TimedRun> {
    const { command, env, ipam, config } = this.#plugin;
    const args = [
      "IgnoreUnknown=1",
      "K8S_POD_NAMESPACE=default",
      `K8S_POD_NAME=${pod}`,
      `K8S_POD_INFRA_CONTAINER_ID=${containerId}`,
      `K8S_POD_UID=${pod}`,
    ];
    return timeProgram({
      command,
      env: {
        PATH: "/usr/bin:/bin",
        ...{ CNI_COMMAND: verb, CNI_CONTAINERID: containerId, CNI_IFNAME: "net1", CNI_NETNS: this.#netns },
        ...{ CNI_PATH: "/usr/lib/cni", CNI_ARGS: args.join(";") },
        ...env,
      },
      input: JSON.stringify({ cniVersion, name: "bench", type: "macvlan", ...config, ipam }),
    });
  }
}
