import { mkdir } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { IPAM_API_VERSION } from "../../src/address-objects/resources.ts";
import { type Child, startChild } from "../machine/child.ts";
import type { LabRun } from "../machine/lab-run.ts";
import type { FakeApiServer } from "../stand-in/api-server/fake-api-server.ts";
import { writeServiceAccount } from "../stand-in/api-server/service-account.ts";
import { IPAM_EXECUTABLE, IpamCalls, type IpamPlugin } from "./ipam-calls.ts";

const DIST = resolve(import.meta.dirname, "../../dist");

/** Has an API server in the bench's own process, with the space `default`. */
export function createSpace({ store }: FakeApiServer, ipv4: number): void {
  store.create("addressspaces", {
    ...{ apiVersion: IPAM_API_VERSION, metadata: { name: "default" } },
    spec: { blockPrefixes: { ipv4, ipv6: 122 } },
  });
}

/** Creates a pool of one subnet in the space `default`. */
export function createPool(
  { store }: FakeApiServer,
  name: string,
  cidr: string,
  spec: Readonly<Record<string, unknown>> = {},
): void {
  store.create("addresspools", {
    ...{ apiVersion: IPAM_API_VERSION, metadata: { name } },
    spec: { space: "default", subnets: [{ cidr }], mode: "NodeBlocks", cooldownSeconds: 60, ...spec },
  });
}

/** A program as bundled, with the first line of its bundle, by this Node. */
export async function startBundle(
  run: LabRun,
  program: "ipam-agent" | "ipam-controller",
  options: {
    readonly name: string;
    readonly args: readonly string[];
    readonly env: Readonly<Record<string, string>>;
  },
): Promise<Child> {
  const path = `${dirname(process.execPath)}:${process.env["PATH"] ?? ""}`;
  return startChild(run, {
    ...{ name: options.name, command: join(DIST, program, "main.mjs"), args: options.args },
    env: { PATH: path, ...options.env },
  });
}

/** The agent's option --claims. */
type ClaimsMode = "off" | "referenced" | "managed";

/** The bundled agent of a node, with its journal on disk. */
export class BenchAgent {
  readonly name: string;
  readonly #run: LabRun;
  readonly #api: FakeApiServer;
  readonly #directory: string;
  readonly #socket: string;
  readonly #claims: ClaimsMode;
  #agent: Child | undefined;
  #lives = 0;

  private constructor(run: LabRun, api: FakeApiServer, name: string, claims: ClaimsMode) {
    this.name = name;
    this.#run = run;
    this.#api = api;
    this.#claims = claims;
    this.#directory = join(run.directory, name);
    this.#socket = join(this.#directory, "ipam.sock");
  }

  /** A node in the API server, and no agent yet. */
  static async open(
    run: LabRun,
    api: FakeApiServer,
    name: string,
    claims: ClaimsMode = "off",
  ): Promise<BenchAgent> {
    const agent = new BenchAgent(run, api, name, claims);
    api.store.create("nodes", { metadata: { name } });
    await mkdir(agent.#directory, { recursive: true });
    await writeServiceAccount(join(agent.#directory, "token"), api);
    return agent;
  }

  /** Starts it; an ADD waits until it answers. */
  async start(): Promise<void> {
    this.#lives += 1;
    const args = {
      "--state": join(this.#directory, "state"),
      "--socket": this.#socket,
      "--observe-port": "0",
      "--service-account": join(this.#directory, "token"),
      "--api-server": this.#api.url,
      "--claims": this.#claims,
    };
    this.#agent = await startBundle(this.#run, "ipam-agent", {
      name: `agent-${this.name}-${this.#lives}`,
      args: Object.entries(args).flat(),
      env: { NODE_NAME: this.name },
    });
  }

  async stop(): Promise<void> {
    await this.#agent?.stop();
    this.#agent = undefined;
  }

  get pid(): number {
    return this.#agent?.pid ?? -1;
  }

  /** ADD and DEL of a network that takes its addresses from a pool. @param config beside the usual */
  calls(pool: string, netns: string, config?: IpamPlugin["config"]): IpamCalls {
    return new IpamCalls(
      {
        command: IPAM_EXECUTABLE,
        env: { KUBE_VHOSTUSER_IPAM_SOCKET: this.#socket },
        ipam: { type: "kube-vhostuser-ipam", pools: [pool] },
        ...(config && { config }),
      },
      netns,
    );
  }
}
