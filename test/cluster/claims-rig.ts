import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { pino } from "pino";
import { renderChart } from "../../scripts/build/render-manifests.ts";
import { type RunningDra, startDra } from "../../src/dra/start-dra.ts";
import { ApiFailure } from "../../src/kube-api/api-failure.ts";
import { KubeApi, type KubeObject, type Resource } from "../../src/kube-api/client.ts";
import type { LabRun } from "../machine/lab-run.ts";
import { waitUntil } from "../machine/wait-until.ts";
import { DRIVER } from "../stand-in/dra/claim-object.ts";
import { type DriverRig, type DriverRigOptions, openDriverRig } from "../stand-in/dra/driver-rig.ts";
import type { KubeletDevice, PodClaim } from "../stand-in/kubelet/dra-manager.ts";
import { ApiServer, type PodOfAccount } from "./api-server.ts";
import { kubernetesParts } from "./kubernetes-parts.ts";

export const NAMESPACE = "kube-vhostuser";
/** User name of the chart's ServiceAccount. */
export const DAEMON = `system:serviceaccount:${NAMESPACE}:kube-vhostuser`;
export const SLICES: Resource = { group: "resource.k8s.io", version: "v1", plural: "resourceslices" };
const CLAIMS = { group: "resource.k8s.io", version: "v1", plural: "resourceclaims", namespace: "tests" };
/** Another driver, with a device of many a claim. */
export const FOREIGN = "gpu.example.com";

/** What a claim is allocated; what is left out is a share of the device `one`. */
export interface Allocated {
  readonly device?: string;
  readonly shareID?: string | undefined;
  /** The only node that the scheduler allocated it for. */
  readonly node?: string;
}

/** A real API server with the chart's objects and two nodes, and the DRA driver of the first one with the chart's rights. */
export class ClaimsRig {
  readonly server: ApiServer;
  /** As an administrator. */
  readonly api: KubeApi;
  readonly logged: string[] = [];
  #directory = "";
  #node: DriverRig | undefined;
  #dra: RunningDra | undefined;
  #claims = 0;

  private constructor(server: ApiServer) {
    this.server = server;
    this.api = new KubeApi({ url: server.url, serviceAccountDirectory: server.administrator });
  }

  static async open(run: LabRun, gates?: Readonly<Record<string, boolean>>): Promise<ClaimsRig> {
    const server = await ApiServer.start(run, kubernetesParts(process.env, ["etcd", "apiServer"]), gates);
    const rig = new ClaimsRig(server);
    await server.apply(
      ...[NAMESPACE, "tests"].map((name) => ({ apiVersion: "v1", kind: "Namespace", metadata: { name } })),
      ...["n1", "n2"].map((name) => ({ apiVersion: "v1", kind: "Node", metadata: { name } })),
      { apiVersion: "v1", kind: "ServiceAccount", metadata: { name: "default", namespace: "tests" } },
    );
    const chart = await renderChart({ dra: { enabled: true } });
    await server.sh(`kubectl apply -f - <<'END'\n${chart}\nEND`);
    for (const node of ["n1", "n2"]) await server.apply(podOn(node, rig.daemonOf(node)));
    rig.#directory = await server.serviceAccountOf(rig.daemonOf("n1"));
    return rig;
  }

  /** The daemon's pod on a node. */
  daemonOf(node: string): PodOfAccount {
    return { namespace: NAMESPACE, name: `daemon-${node}`, account: "kube-vhostuser" };
  }

  /** The driver's node. */
  get node(): DriverRig {
    if (this.#node === undefined) throw new Error("startDriver() comes first");
    return this.#node;
  }

  /** Starts the driver on a node without claims, or, where it was stopped, on the one that it was on. */
  async startDriver(capacity?: DriverRigOptions["capacity"]): Promise<void> {
    const write = (line: string) => {
      const { level, msg, reason } = JSON.parse(line);
      this.logged.push(`${pino.levels.labels[level]} ${msg}${reason === undefined ? "" : `: ${reason}`}`);
    };
    this.#node ??= await openDriverRig({
      ...{ url: this.server.url, serviceAccountDirectory: this.#directory, logger: pino({}, { write }) },
      ...(capacity === undefined ? {} : { capacity }),
    });
    this.node.kubelet.start();
    this.#dra = await startDra(this.node.options);
    await this.node.kubelet.waitForDriver(DRIVER);
  }

  /** A second instance beside it, as during a rolling update. @returns ends it */
  async startSuccessor(): Promise<() => Promise<void>> {
    const next = await startDra({ ...this.node.options, podUid: "next-pod" });
    return async () => next?.close();
  }

  async stopDriver(): Promise<void> {
    await this.node.kubelet.stop();
    await this.#dra?.close();
    this.#dra = undefined;
  }

  /** The driver's node goes, with what it has on disk. */
  async removeNode(): Promise<void> {
    if (this.#node === undefined) return;
    await this.stopDriver();
    await this.#node.close();
    this.#node = undefined;
  }

  async close(): Promise<void> {
    await this.removeNode();
    this.api.close();
  }

  /** Devices that the node's slices have now, and names of the slices. */
  async offered(): Promise<{ readonly slices: readonly string[]; readonly devices: readonly KubeObject[] }> {
    const signal = AbortSignal.timeout(10_000);
    const { objects } = await this.api.list(SLICES, { fieldSelector: "spec.nodeName=n1" }, signal);
    const devices = objects.flatMap(({ spec }) => (spec as { devices?: KubeObject[] }).devices ?? []);
    return { slices: objects.map(({ metadata }) => metadata.name).sort(), devices };
  }

  /** Polls while errors of the API server are passing ones. */
  until(what: string, poll: () => Promise<boolean>): Promise<unknown> {
    const detail = () => this.logged.slice(-5).join("; ");
    return waitUntil(() => poll().catch(() => false), { what, limitMs: 120_000, everyMs: 100, detail });
  }

  /** A claim with a device of ours and one of {@link FOREIGN}, as the scheduler leaves it: allocated and reserved. */
  async allocate({ device = "one", shareID, node = "n1" }: Allocated = {}): Promise<PodClaim> {
    this.#claims += 1;
    const name = `claim-${this.#claims}`;
    const exactly = { deviceClassName: "vhostuser" };
    await this.server.apply({
      ...{ apiVersion: "resource.k8s.io/v1", kind: "ResourceClaim" },
      metadata: { name, namespace: "tests" },
      spec: { devices: { requests: ["net", "gpu"].map((request) => ({ name: request, exactly })) } },
    });
    const pod = { namespace: "tests", name: `pod-${this.#claims}`, account: "default" };
    await this.server.apply(podOn(node, pod));
    const uidOf = (kind: string, of: string) =>
      this.server.kubectl("-n", "tests", "get", kind, of, "--output", "jsonpath={.metadata.uid}");
    const share = shareID === undefined ? {} : { shareID, consumedCapacity: { ports: "1" } };
    const status = {
      allocation: {
        nodeSelector: {
          nodeSelectorTerms: [{ matchFields: [{ key: "metadata.name", operator: "In", values: [node] }] }],
        },
        devices: {
          results: [
            { request: "net", driver: DRIVER, pool: "n1", device, ...share },
            { request: "gpu", driver: FOREIGN, pool: "gpus", device: "gpu-0" },
          ],
        },
      },
      reservedFor: [{ resource: "pods", name: pod.name, uid: await uidOf("pod", pod.name) }],
    };
    const signal = AbortSignal.timeout(10_000);
    await this.api.patch(
      { ...CLAIMS, subresource: "status" },
      name,
      { type: "merge", body: { status } },
      signal,
    );
    return { namespace: "tests", name, uid: await uidOf("resourceclaim", name) };
  }

  /** A claim with a share of the pool, as {@link allocate} makes it, that kubelet has prepared for its pod. */
  async prepare(wish: Allocated = { shareID: randomUUID() }): Promise<PodClaim> {
    const claim = await this.allocate(wish);
    await this.prepareAgain(claim);
    return claim;
  }

  prepareAgain(claim: PodClaim): Promise<readonly KubeletDevice[]> {
    return this.node.kubelet.prepare(`pod of ${claim.name}`, DRIVER, [claim]);
  }

  unprepare({ name }: PodClaim): Promise<void> {
    return this.node.kubelet.unprepare(`pod of ${name}`, DRIVER);
  }

  /** A device's entry in a claim's status; undefined while it has none. */
  async statusOf({ name }: PodClaim, driver = DRIVER): Promise<Record<string, unknown> | undefined> {
    const { status } = await this.api.get(CLAIMS, name, AbortSignal.timeout(10_000));
    const { devices = [] } = status as { devices?: { driver: string }[] };
    return devices.find((one) => one.driver === driver);
  }

  /** Another driver writes its device's entry by server-side apply. */
  async writeForeignStatus({ name }: PodClaim, data: object): Promise<void> {
    const device = { driver: FOREIGN, pool: "gpus", device: "gpu-0", data };
    const body = {
      ...{ apiVersion: "resource.k8s.io/v1", kind: "ResourceClaim", metadata: { name, namespace: "tests" } },
      status: { devices: [device] },
    };
    const to = { ...CLAIMS, subresource: "status" };
    const patch = { type: "apply", fieldManager: FOREIGN, force: true, body } as const;
    await this.api.patch(to, name, patch, AbortSignal.timeout(10_000));
  }

  /** Another driver reads the claim, changes its device's entry and writes the whole status, until there is no conflict. */
  async replaceForeignStatus({ name }: PodClaim, more: object): Promise<void> {
    const signal = AbortSignal.timeout(60_000);
    for (;;) {
      const claim = await this.api.get(CLAIMS, name, signal);
      const status = claim["status"] as { devices?: { driver: string; data?: object }[] };
      const devices = (status.devices ?? []).map((one) =>
        one.driver === FOREIGN ? { ...one, data: { ...one.data, ...more } } : one,
      );
      const body = { ...claim, status: { ...status, devices } };
      try {
        await this.api.update({ ...CLAIMS, subresource: "status" }, body, signal);
        return;
      } catch (error) {
        if (!(error instanceof ApiFailure && error.problem === "conflict")) throw error;
      }
    }
  }

  /** A client with the token of the driver, or with another pod's. */
  clientOf(directory = this.#directory): KubeApi {
    return new KubeApi({ url: this.server.url, serviceAccountDirectory: directory });
  }

  /** Where the driver keeps what a claim has, for a test that looks whether anything is left. */
  get cdiDirectory(): string {
    return join(this.node.top, "cdi");
  }
}

function podOn(node: string, { namespace, name, account }: PodOfAccount): object {
  return {
    ...{ apiVersion: "v1", kind: "Pod", metadata: { namespace, name } },
    spec: {
      ...{ nodeName: node, serviceAccountName: account },
      containers: [{ name: "c", image: "localhost/none:1" }],
    },
  };
}
