import { mkdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { compileShim } from "../../scripts/build/compile-shim.ts";
import { agentStatusSocket } from "../../src/status/status-client.ts";
import type { Child } from "../machine/child.ts";
import type { LabRun } from "../machine/lab-run.ts";
import { waitUntilSucceeds } from "../machine/wait-until.ts";
import { startShim } from "../shim/run-shim.ts";
import { ApiServer } from "./api-server.ts";
import { NAMESPACE, startIpamProgram } from "./ipam-program.ts";
import { kubernetesParts } from "./kubernetes-parts.ts";

/** Pods of the tests. */
export const TESTS = "tests";

/** What a cluster has before its programs start. */
export interface IpamRigOptions {
  readonly nodes: readonly string[];
  /** Values of the chart below `ipam` that are true. */
  readonly enabled: readonly string[];
  /** Beside namespaces and nodes. */
  readonly objects?: readonly object[];
}

/** A call of the IPAM executable, as a CNI plugin that delegates makes it. */
export interface IpamCall {
  readonly verb: "ADD" | "DEL" | "STATUS";
  readonly node: string;
  readonly container: string;
  readonly interfaceName: string;
  readonly pod: { readonly name: string; readonly uid: string };
  /** The network's. */
  readonly config: object;
}

/** What the executable answered. */
export interface IpamAnswer {
  readonly code: number | null;
  /** Its output, of which an error has `code` and `msg`. */
  readonly json: ReturnType<typeof JSON.parse>;
}

/** A real API server with the chart's objects, on which the IPAM programs run with the rights of their pods and no others. */
export class IpamRig {
  readonly server: ApiServer;
  readonly #run: LabRun;
  readonly #executable: string;
  readonly #programs = new Map<string, Child>();

  private constructor(run: LabRun, server: ApiServer, executable: string) {
    this.#run = run;
    this.server = server;
    this.#executable = executable;
  }

  static async open(run: LabRun, { nodes, enabled, objects = [] }: IpamRigOptions): Promise<IpamRig> {
    const output = join(run.directory, "ipam");
    const executable = await compileShim({ executable: "kube-vhostuser-ipam", output });
    const server = await ApiServer.start(run, kubernetesParts(process.env, ["etcd", "apiServer"]));
    await server.apply(
      ...[NAMESPACE, TESTS].map((name) => ({ apiVersion: "v1", kind: "Namespace", metadata: { name } })),
      ...nodes.map((name) => ({ apiVersion: "v1", kind: "Node", metadata: { name } })),
      { apiVersion: "v1", kind: "ServiceAccount", metadata: { name: "default", namespace: TESTS } },
      ...objects,
    );
    const values = enabled.map((key) => `--set ipam.${key}=true`).join(" ");
    await server.sh(`helm install kube-vhostuser deploy/chart/kube-vhostuser -n ${NAMESPACE} ${values}`);
    return new IpamRig(run, server, executable);
  }

  startController(node: string, ...flags: readonly string[]): Promise<Child> {
    return this.#start("ipam-controller", node, "ipam-controller", flags);
  }

  async startAgent(node: string, ...flags: readonly string[]): Promise<Child> {
    const socket = this.#socketOf(node);
    const paths = ["--state", join(dirname(socket), "state"), "--socket", socket];
    await mkdir(dirname(socket), { recursive: true });
    return this.#start("ipam-agent", node, `ipam-agent-${node}`, [
      ...[...paths, "--netns", this.#run.directory],
      ...flags,
    ]);
  }

  /** Where `vhostuserctl ip` reaches a node's agent. */
  statusSocketOf(node: string): string {
    return agentStatusSocket(this.#socketOf(node));
  }

  /** Kills the agent of a node, and removes its pod. */
  async killAgent(node: string): Promise<void> {
    const name = `ipam-agent-${node}`;
    await this.#programs.get(name)?.stop("SIGKILL");
    this.#programs.delete(name);
    await this.server.kubectl("-n", NAMESPACE, "delete", "pod", name, "--force");
  }

  async call({ verb, node, container, interfaceName, pod, config }: IpamCall): Promise<IpamAnswer> {
    const env = {
      KUBE_VHOSTUSER_IPAM_SOCKET: this.#socketOf(node),
      ...{ CNI_COMMAND: verb, CNI_CONTAINERID: container, CNI_IFNAME: interfaceName },
      CNI_NETNS: `/run/netns/${container}`,
      CNI_ARGS: `K8S_POD_NAMESPACE=${TESTS};K8S_POD_NAME=${pod.name};K8S_POD_UID=${pod.uid}`,
    };
    const { code, stdout } = await startShim(
      { executable: this.#executable },
      { env, stdin: JSON.stringify(config) },
    ).ended;
    return { code, json: stdout === "" ? undefined : JSON.parse(stdout) };
  }

  /** Waits until an action succeeds, as long as all programs run. */
  until(what: string, action: () => Promise<unknown>): Promise<void> {
    const waiting = waitUntilSucceeds(action, { what, limitMs: 300_000, everyMs: 200 });
    return Promise.race([waiting, ...[...this.#programs.values()].map(({ died }) => died)]);
  }

  /** What kubectl gets. */
  async get(...args: readonly string[]): Promise<ReturnType<typeof JSON.parse>> {
    return JSON.parse(await this.server.kubectl("get", ...args, "--output", "json"));
  }

  /** Requests of a program that the API server refused for want of a right, or as invalid. @throws Error where there were none at all */
  async refusedRequests(program: "ipam-agent" | "ipam-controller"): Promise<readonly unknown[]> {
    const requests = await this.server.requestsOf(
      `system:serviceaccount:${NAMESPACE}:kube-vhostuser-${program}`,
    );
    if (requests.length === 0) throw new Error(`${program} made no requests`);
    return requests.filter(({ responseStatus }) => [401, 403, 422].includes(responseStatus?.code ?? 0));
  }

  #socketOf(node: string): string {
    return join(this.#run.directory, node, "ipam.sock");
  }

  async #start(
    program: "ipam-agent" | "ipam-controller",
    node: string,
    name: string,
    flags: readonly string[],
  ): Promise<Child> {
    const child = await startIpamProgram(this.#run, this.server, program, flags, node, name);
    this.#programs.set(name, child);
    return child;
  }
}
