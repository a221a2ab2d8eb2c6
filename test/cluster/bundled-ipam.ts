// The bundled IPAM programs on a stand-in for the API server.
import { mkdir } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { type Child, startChild } from "../machine/child.ts";
import type { LabRun } from "../machine/lab-run.ts";
import type { FakeApiServer } from "../stand-in/api-server/fake-api-server.ts";
import { writeServiceAccount } from "../stand-in/api-server/service-account.ts";

const DIST = resolve(import.meta.dirname, "../../dist");
/** Namespace of the controller's pod and Lease. */
const NAMESPACE = "default";

/** A program as bundled, with the first line of its bundle, by this Node. */
export async function startBundle(
  run: LabRun,
  program: "ipam-agent" | "ipam-controller" | "cni-dra",
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

/** The arguments of both programs. @param directory where the token is written */
async function apiArgs(
  api: Pick<FakeApiServer, "url" | "ca">,
  directory: string,
): Promise<readonly string[]> {
  await writeServiceAccount(directory, api);
  return ["--api-server", api.url, "--service-account", directory, "--observe-port", "0"];
}

/** Starts the controller. @param name unique in the run; @param flags such as `--claims` */
export async function startController(
  run: LabRun,
  api: Pick<FakeApiServer, "url" | "ca">,
  name: string,
  flags: readonly string[] = [],
): Promise<Child> {
  return startBundle(run, "ipam-controller", {
    ...{ name, args: [...(await apiArgs(api, join(run.directory, `${name}-token`))), ...flags] },
    // A container that is started again has its Lease at once.
    env: { POD_NAMESPACE: NAMESPACE, POD_NAME: "ipam-controller" },
  });
}

/** What the option --claims of the agent says. */
export type ClaimsMode = "off" | "referenced" | "managed";

/** The agent of a node, with its journal on disk. */
export class NodeAgent {
  readonly node: string;
  /** Where the IPAM executable reaches it. */
  readonly socket: string;
  readonly #run: LabRun;
  readonly #api: Pick<FakeApiServer, "url" | "ca">;
  readonly #directory: string;
  readonly #claims: ClaimsMode;
  #agent: Child | undefined;
  #lives = 0;

  /** @param node as the API server knows it */
  constructor(run: LabRun, api: Pick<FakeApiServer, "url" | "ca">, node: string, claims: ClaimsMode = "off") {
    this.#run = run;
    this.#api = api;
    this.node = node;
    this.#claims = claims;
    this.#directory = join(run.directory, node, "ipam");
    this.socket = join(this.#directory, "ipam.sock");
  }

  /** Starts it; an ADD waits until it answers. */
  async start(): Promise<void> {
    this.#lives += 1;
    await mkdir(this.#directory, { recursive: true });
    this.#agent = await startBundle(this.#run, "ipam-agent", {
      name: `ipam-agent-${this.node}-${this.#lives}`,
      args: [
        ...(await apiArgs(this.#api, join(this.#directory, "token"))),
        ...["--state", join(this.#directory, "state"), "--socket", this.socket, "--claims", this.#claims],
      ],
      env: { NODE_NAME: this.node },
    });
  }

  async stop(signal?: NodeJS.Signals): Promise<void> {
    await this.#agent?.stop(signal);
    this.#agent = undefined;
  }

  get pid(): number {
    return this.#agent?.pid ?? -1;
  }
}
