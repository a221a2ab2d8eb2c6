import { timeProgram } from "./timed-program.ts";

/** Where the peer makes its ports. */
export interface VsctlCallsOptions {
  readonly databaseSocket: string;
  readonly bridge: string;
  /** Directory of the sockets' names; nothing is made in it, the switch is the client. */
  readonly directory: string;
}

/** The way of userspace-cni: ovs-vsctl run as a process for every port, waiting until the switch has it. */
export class VsctlCalls {
  readonly #options: VsctlCallsOptions;
  #ports = 0;

  constructor(options: VsctlCallsOptions) {
    this.#options = options;
  }

  /** A name that no port had before. */
  newPort(): string {
    return `peer${this.#ports++}`;
  }

  /** @returns milliseconds */
  add(port: string, ...options: readonly string[]): Promise<number> {
    const { bridge, directory } = this.#options;
    const socket = `options:vhost-server-path=${directory}/${port}.sock`;
    const set = ["--", "set", "Interface", port, "type=dpdkvhostuserclient", socket];
    return this.#run(...options, "add-port", bridge, port, ...set);
  }

  /** @returns milliseconds */
  del(port: string): Promise<number> {
    return this.#run("del-port", this.#options.bridge, port);
  }

  async #run(...args: readonly string[]): Promise<number> {
    const db = `--db=unix:${this.#options.databaseSocket}`;
    const env = { PATH: "/usr/bin:/bin" };
    return (await timeProgram({ command: "/usr/bin/ovs-vsctl", args: [db, ...args], env })).ms;
  }
}
