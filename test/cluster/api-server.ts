import { readFile, writeFile } from "node:fs/promises";
import { delimiter, dirname, join } from "node:path";
import { type Child, startChild } from "../machine/child.ts";
import { freePort } from "../machine/free-port.ts";
import { kubernetesTools } from "../machine/kubernetes-tools.ts";
import type { LabRun } from "../machine/lab-run.ts";
import { runProgram } from "../machine/run-program.ts";
import { waitUntil } from "../machine/wait-until.ts";
import { apiServerArguments, etcdArguments, writeCredentials } from "./control-plane.ts";
import { type KubernetesParts, PROJECT } from "./kubernetes-parts.ts";

/** A request as the audit log has it (audit.k8s.io/v1, Event). */
export interface AuditedRequest {
  readonly verb: string;
  readonly user: { readonly username: string };
  readonly objectRef?: {
    readonly apiGroup?: string;
    readonly resource?: string;
    readonly subresource?: string;
  };
  readonly responseStatus?: { readonly code?: number };
}

const AUDIT_POLICY = {
  apiVersion: "audit.k8s.io/v1",
  kind: "Policy",
  rules: [{ level: "Metadata", omitStages: ["RequestReceived"] }],
};

/**
 * A real API server with etcd and RBAC, without nodes: what a scheduler, kubelet or controller would write, a test
 * writes itself.
 */
export class ApiServer {
  readonly url: string;
  /** Directory with an administrator's token and the server's certificate, as {@link KubeApi} reads them. */
  readonly administrator: string;
  readonly #run: LabRun;
  readonly #program: string;
  readonly #pki: string;
  readonly #etcd: string;
  #server: Child | undefined;
  #starts = 0;

  private constructor(run: LabRun, program: string, port: number, etcd: string) {
    this.#run = run;
    this.#program = program;
    this.url = `https://127.0.0.1:${port}`;
    this.#etcd = etcd;
    this.#pki = join(run.directory, "pki");
    this.administrator = this.#pki;
  }

  /** @param gates feature gates that are not as they are by default */
  static async start(
    run: LabRun,
    { etcd, apiServer }: Pick<KubernetesParts, "etcd" | "apiServer">,
    gates: Readonly<Record<string, boolean>> = {},
  ): Promise<ApiServer> {
    const [clients, peers] = [await freePort(), await freePort()].map((port) => `http://127.0.0.1:${port}`);
    if (clients === undefined || peers === undefined) throw new Error("two ports");
    const server = new ApiServer(run, apiServer, await freePort(), clients);
    await writeCredentials(server.#pki, server.url, { admin: ["admin", "system:masters"] });
    const [token = ""] = (await readFile(join(server.#pki, "tokens.csv"), "utf8")).split(",");
    await writeFile(join(server.#pki, "token"), token);
    await writeFile(join(server.#pki, "audit-policy.json"), JSON.stringify(AUDIT_POLICY));
    const args = etcdArguments(join(run.directory, "etcd"), clients, peers);
    await startChild(run, { name: "etcd", command: etcd, args });
    await server.restart(gates);
    await writeFile(join(server.#pki, "ca.crt"), await server.certificate());
    return server;
  }

  /** SIGKILL. */
  async kill(): Promise<void> {
    await this.#server?.stop("SIGKILL");
  }

  /** Starts it, where it runs after its end, and waits until it is ready. */
  async restart(gates: Readonly<Record<string, boolean>> = {}): Promise<void> {
    await this.kill();
    this.#starts += 1;
    const { port } = new URL(this.url);
    this.#server = await startChild(this.#run, {
      name: `apiserver-${this.#starts}`,
      command: this.#program,
      args: [
        ...apiServerArguments(this.#pki, this.#etcd),
        ...["--bind-address=127.0.0.1", `--secure-port=${port}`, "--service-cluster-ip-range=10.96.0.0/24"],
        // A cluster's Service cannot have an address of loopback.
        ...["--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none"],
        `--audit-policy-file=${join(this.#pki, "audit-policy.json")}`,
        `--audit-log-path=${this.#auditLog}`,
        ...Object.entries(gates).map(([gate, isOn]) => `--feature-gates=${gate}=${isOn}`),
      ],
    });
    const isUp = () =>
      this.kubectl("get", "--raw", "/readyz").then(
        () => true,
        () => false,
      );
    const ready = waitUntil(isUp, { what: "the API server is ready", limitMs: 180_000, everyMs: 200 });
    await Promise.race([ready, this.#server.died]);
  }

  /** The server's certificate as PEM, which signed itself. */
  certificate(): Promise<string> {
    return readFile(join(this.#pki, "apiserver.crt"), "utf8");
  }

  /** Runs kubectl as an administrator, or as options say. */
  async kubectl(...args: readonly string[]): Promise<string> {
    const { kubectl } = await kubernetesTools();
    return (await runProgram(kubectl, ["--kubeconfig", this.#kubeconfig, ...args])).stdout;
  }

  /** Runs a shell script in the project's directory, with kubectl and helm that know the server. */
  async sh(script: string): Promise<string> {
    const { kubectl, helm } = await kubernetesTools();
    const path = [dirname(kubectl), dirname(helm), process.env["PATH"]].join(delimiter);
    const env = { PATH: path, KUBECONFIG: this.#kubeconfig };
    return (await runProgram("sh", ["-ec", script], { env, cwd: PROJECT, limitMs: 180_000 })).stdout;
  }

  /** Creates or changes objects. */
  apply(...objects: readonly object[]): Promise<void> {
    return this.#apply([], objects);
  }

  /** As {@link apply}, with the rights of a user. */
  applyAs(user: string, ...objects: readonly object[]): Promise<void> {
    return this.#apply(["--as", user], objects);
  }

  async #apply(options: readonly string[], objects: readonly object[]): Promise<void> {
    const { kubectl } = await kubernetesTools();
    const input = JSON.stringify({ apiVersion: "v1", kind: "List", items: objects });
    const args = ["--kubeconfig", this.#kubeconfig, ...options, "apply", "--filename", "-"];
    await runProgram(kubectl, args, { input });
  }

  /**
   * Writes what a pod has of its ServiceAccount: the server's certificate and a token that is bound to the pod, and
   * names its node.
   * @param isBound false for a token that only names the ServiceAccount
   * @returns the directory
   */
  async serviceAccountOf(pod: PodOfAccount, isBound = true): Promise<string> {
    const { namespace, name, account } = pod;
    const directory = join(this.#run.directory, `${namespace}-${name}${isBound ? "" : "-unbound"}`);
    const uid = await this.kubectl(
      "-n",
      namespace,
      "get",
      "pod",
      name,
      "--output",
      "jsonpath={.metadata.uid}",
    );
    const bound = ["--bound-object-kind=Pod", `--bound-object-name=${name}`, `--bound-object-uid=${uid}`];
    const args = ["-n", namespace, "create", "token", account, ...(isBound ? bound : [])];
    await runProgram("mkdir", ["-p", directory]);
    await writeFile(join(directory, "token"), (await this.kubectl(...args)).trim());
    await writeFile(join(directory, "ca.crt"), await this.certificate());
    return directory;
  }

  /** Requests of a user so far that were answered, watches too. */
  async requestsOf(username: string): Promise<readonly AuditedRequest[]> {
    const lines = (await readFile(this.#auditLog, "utf8")).split("\n").filter((line) => line !== "");
    return lines
      .map((line) => JSON.parse(line) as AuditedRequest)
      .filter(({ user }) => user.username === username);
  }

  get #kubeconfig(): string {
    return join(this.#pki, "admin.json");
  }

  get #auditLog(): string {
    return join(this.#run.directory, "audit.log");
  }
}

/** A pod, with the ServiceAccount that it runs as. */
export interface PodOfAccount {
  readonly namespace: string;
  readonly name: string;
  readonly account: string;
}
