import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { CNI_DRIVER } from "../../../src/cni-dra/plan-interfaces.ts";
import { startBundle } from "../../cluster/bundled-ipam.ts";
import type { Child } from "../../machine/child.ts";
import { FakeApiServer } from "../../stand-in/api-server/fake-api-server.ts";
import { writeServiceAccount } from "../../stand-in/api-server/service-account.ts";
import { claimObject } from "../../stand-in/dra/claim-object.ts";
import { StandInDraManager } from "../../stand-in/kubelet/dra-manager.ts";
import { Runtime, type RuntimePod } from "../../stand-in/nri/runtime.ts";
import type { BenchRun } from "../bench-suite.ts";
import { REST_TIMES, TRIAL_REST } from "../daemon-at-rest.ts";
import { type Aim, atMost, type SuiteDefinition } from "../measurement.ts";
import { anonymousKiB } from "../process-memory.ts";
import { timeProgram, timeWork } from "../timed-program.ts";

/** Pods with a claim each that are there all the time: kubelet's default limit. */
const PODS = 110;
/** Pods that start at the same time. */
const AT_ONCE = 30;
const WATCHED: Aim = { text: "none", holds: () => null };

/** A plugin that does as little as one can, without another process. */
const PLUGIN = `#!/bin/sh
read -r config
[ "$CNI_COMMAND" = ADD ] || exit 0
echo '{"cniVersion":"1.0.0","interfaces":[{"name":"'$CNI_IFNAME'","sandbox":"'$CNI_NETNS'"}]}'
`;

/** What the measurements share. */
interface CniClaimsRig {
  readonly isTrial: boolean;
  readonly node: CniClaimsNode;
}

/** A node with pods that have claims. */
export async function openCniClaimsRig({ run, isTrial = false }: BenchRun): Promise<CniClaimsRig> {
  const node = await CniClaimsNode.open(run);
  for (let count = 0; count < (isTrial ? 1 : PODS); count++) await node.runtime.run(await node.prepare());
  return { isTrial, node };
}

/** The bundled driver between a runtime's NRI and kubelet, both stand-ins. */
export const cniClaimsSuite: SuiteDefinition<CniClaimsRig> = {
  name: "cni-claims",
  peer: null,
  measurements: [
    {
      ...{ name: "Run of a pod with a claim, beyond its plugin's own time", unit: "ms" },
      ...{ repetitions: 100, warmUp: 20, aim: atMost(10, "<= 10 ms"), aimP95: WATCHED },
      ours: async ({ node }) => {
        const pod = await node.prepare();
        const ms = await timeWork(() => node.start(pod));
        const ownMs = await node.timePlugin();
        await node.end(pod);
        return ms - ownMs;
      },
    },
    {
      ...{ name: "Run of a pod without a claim", unit: "ms", repetitions: 1_000, warmUp: 100 },
      ...{ aim: atMost(2, "<= 2 ms"), aimP99: atMost(5, "<= 5 ms") },
      ours: async ({ node: { runtime } }) => {
        const pod = podOf("plain");
        const ms = await timeWork(() => runtime.run(pod));
        await runtime.remove(pod.id);
        return ms;
      },
    },
    {
      ...{ name: "a container's creation", unit: "ms", repetitions: 1_000, warmUp: 100 },
      ...{ aim: atMost(2, "<= 2 ms"), aimP99: atMost(5, "<= 5 ms") },
      ours: ({ node: { runtime } }) => timeWork(() => runtime.runContainer("pod-1")),
    },
    {
      ...{ name: `${AT_ONCE} pods at once, until all run`, unit: "ms", repetitions: 10, warmUp: 1 },
      ours: async ({ node, isTrial }) => {
        const pods: RuntimePod[] = [];
        while (pods.length < (isTrial ? 2 : AT_ONCE)) pods.push(await node.prepare());
        const ms = await timeWork(() => Promise.all(pods.map((pod) => node.start(pod))));
        for (const pod of pods) await node.end(pod);
        return ms;
      },
    },
    {
      ...{ name: `driver's memory, ${PODS} claims`, unit: "MB", repetitions: 1, shows: "median" },
      aim: atMost(40, "<= 40 MB"),
      ours: async ({ node, isTrial }) => {
        await delay((isTrial ? TRIAL_REST : REST_TIMES).calmMs);
        return ((await anonymousKiB(node.pid)) * 1024) / 1e6;
      },
    },
  ],
};

class CniClaimsNode {
  readonly runtime: Runtime;
  readonly #kubelet: StandInDraManager;
  readonly #api: FakeApiServer;
  readonly #plugins: string;
  #driver: Child | undefined;
  #pods = 0;

  private constructor(directory: string, memory: string, api: FakeApiServer) {
    this.#api = api;
    this.#plugins = join(directory, "bin");
    this.#kubelet = new StandInDraManager(join(directory, "plugins_registry"));
    this.runtime = new Runtime(join(directory, "nri.sock"), {
      ...{ netnsDirectory: join(memory, "netns"), cdiDirectory: join(memory, "cdi") },
    });
  }

  static async open(run: BenchRun["run"]): Promise<CniClaimsNode> {
    const directory = join(run.directory, "cc");
    // Memory, as in production.
    const memory = await mkdtemp("/run/kvu-cni-claims-");
    run.cleanup.defer("remove the driver's files in memory", () => rm(memory, { recursive: true }));
    for (const name of ["plugins_registry", "state", "bin"])
      await mkdir(join(directory, name), { recursive: true });
    const api = await FakeApiServer.start();
    run.cleanup.defer("stop the API server", () => api.close());
    api.store.create("nodes", { metadata: { name: "n1" } });
    await writeServiceAccount(join(directory, "token"), api);
    await writeFile(join(directory, "config.yaml"), "allowedPlugins: {}\ninterfaces: []\n");
    await writeFile(join(directory, "bin/least"), PLUGIN, { mode: 0o755 });
    const node = new CniClaimsNode(directory, memory, api);
    await node.runtime.listen();
    run.cleanup.defer("stop the runtime", () => node.runtime.close());
    node.#kubelet.start();
    run.cleanup.defer("stop kubelet", () => node.#kubelet.stop());
    const args = {
      ...{ "--config": join(directory, "config.yaml"), "--state": join(directory, "state") },
      ...{ "--plugins": node.#plugins, "--nri-socket": node.runtime.socketPath, "--kubelet-dir": directory },
      ...{ "--cdi": join(memory, "cdi"), "--ready": join(memory, "ready"), "--netns": join(memory, "netns") },
      ...{ "--socket": join(memory, "status.sock"), "--observe-port": "0", "--log-level": "warn" },
      ...{ "--service-account": join(directory, "token"), "--api-server": api.url },
    };
    node.#driver = await startBundle(run, "cni-dra", {
      ...{
        name: "cni-dra",
        args: Object.entries(args).flat(),
        env: { NODE_NAME: "n1", POD_UID: "driver-uid" },
      },
    });
    await node.#kubelet.waitForDriver(CNI_DRIVER);
    return node;
  }

  get pid(): number {
    return this.#driver?.pid ?? -1;
  }

  /** A pod with a claim, up to its sandbox. */
  async prepare(): Promise<RuntimePod> {
    this.#pods += 1;
    const pod = podOf(`pod-${this.#pods}`);
    const parameters = {
      ...{ apiVersion: "cni.networking.x-k8s.io/v1alpha1", kind: "CNIConfig", ifName: "net1" },
      config: { cniVersion: "1.0.0", name: "bench", type: "least" },
    };
    const { metadata, ...claim } = claimObject({
      ...{ name: pod.name, namespace: pod.namespace, pods: [pod] },
      results: [{ request: "net", driver: CNI_DRIVER, device: "cni" }],
      config: [{ source: "FromClass", driver: CNI_DRIVER, parameters }],
    });
    const { name, namespace } = pod;
    const stored = this.#api.store.create(`${namespace}/resourceclaims`, {
      ...claim,
      metadata: { name, namespace },
    });
    await this.#kubelet.prepare(pod.uid, CNI_DRIVER, [{ name, namespace, uid: stored.metadata.uid }]);
    return pod;
  }

  async start(pod: RuntimePod): Promise<void> {
    const started = await this.runtime.run(pod);
    if (!started.started || !started.byPlugin) throw new Error(`pod ${pod.name}: ${JSON.stringify(started)}`);
  }

  async end({ id, uid, namespace, name }: RuntimePod): Promise<void> {
    await this.runtime.stop(id);
    await this.#kubelet.unprepare(uid, CNI_DRIVER);
    await this.runtime.remove(id);
    this.#api.store.remove(`${namespace}/resourceclaims`, name, {});
  }

  /** What the plugin takes without the driver, in milliseconds. */
  async timePlugin(): Promise<number> {
    const command = join(this.#plugins, "least");
    const env = { CNI_COMMAND: "ADD", CNI_IFNAME: "net1", CNI_NETNS: "/run/netns/none" };
    return (await timeProgram({ command, env, input: "{}\n" })).ms;
  }
}

function podOf(id: string): RuntimePod {
  return { id, name: id, namespace: "default", uid: `uid-${id}`, netns: `/run/netns/${id}` };
}
