import { rm } from "node:fs/promises";
import { join } from "node:path";
import type { AgentOptions } from "../../../src/ipam-agent/agent.ts";
import { serveAgentStatus } from "../../../src/ipam-agent/serve-status.ts";
import type { HttpServer } from "../../../src/observe/http-server.ts";
import { AgentRig, type TestAgent } from "./agent-rig.ts";

/** An agent of node n1 whose status is served on a socket, as its program serves it. */
export class ServedAgent {
  readonly rig: AgentRig;
  readonly agent: TestAgent;
  readonly socketPath: string;
  readonly #server: HttpServer;

  private constructor(rig: AgentRig, agent: TestAgent, socketPath: string, server: HttpServer) {
    this.rig = rig;
    this.agent = agent;
    this.socketPath = socketPath;
    this.#server = server;
  }

  static async start(options: Partial<AgentOptions> = {}): Promise<ServedAgent> {
    const rig = await AgentRig.open();
    const agent = await rig.agent(options);
    const socketPath = join(rig.directory, "ipam-status.sock");
    const { client: api, clock, logger } = rig.api;
    const hasNetns = options.hasNetns ?? (async (path: string) => rig.netns.has(path));
    const server = await serveAgentStatus({
      ...{ node: "n1", api, agent, clock, logger, hasNetns, socketPath, ownPodUid: undefined },
      ...{ version: "0.1.0", startedAt: clock.now() },
    });
    return new ServedAgent(rig, agent, socketPath, server);
  }

  /** ADD for a pod, which exists from before it. @returns its address without the prefix length */
  async add(pod: string, call: { readonly container?: string } = {}): Promise<string> {
    if (!this.rig.api.server.store.all("pods").some(({ metadata }) => metadata.name === pod))
      this.rig.pod(pod);
    const { json } = await this.agent.call({ verb: "ADD", pod, container: `c-${pod}`, ...call });
    return json.ips?.[0]?.address.split("/")[0] ?? "";
  }

  /** Ends the agent's status only. */
  async stopServing(): Promise<void> {
    await this.#server.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.close();
    await rm(this.socketPath, { force: true });
    await this.rig[Symbol.asyncDispose]();
  }
}
