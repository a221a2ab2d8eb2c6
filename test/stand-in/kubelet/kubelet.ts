import { randomUUID } from "node:crypto";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { UnixServer } from "../../../src/grpc/unix-server.ts";
import { type KubeletPaths, kubeletPaths } from "../../../src/kubelet/paths.ts";
import type { Affinity, PreferenceCall } from "./choose-devices.ts";
import { containerOptions, mountProblems } from "./container-options.ts";
import { type AllocateCall, DeviceManager } from "./device-manager.ts";
import { singleNodeFor } from "./numa-affinity.ts";
import type { Admission, AdmittedContainer, ContainerRequest, PodRequest } from "./pod.ts";
import { type ListedPod, type RunningPod, servePodResources } from "./pod-resources-server.ts";
import { type RegistrationAttempt, RegistrationServer } from "./registration-server.ts";
import { seededRandom } from "./seeded-random.ts";
import { TokenBucket } from "./token-bucket.ts";
import { wipeSockets } from "./wipe-sockets.ts";

/** A stand-in's directory and its source of random numbers. */
export interface StandInKubeletOptions {
  /** kubelet's root directory; a short path, for sockets lie below it. */
  readonly root: string;
  /** Seed of every choice that kubelet leaves open; default 1. */
  readonly seed?: number;
  /** kubelet's `--topology-manager-policy`; default `none`. */
  readonly topologyPolicy?: "none" | "single-numa-node";
}

/** Names a pod. */
export interface PodName {
  readonly namespace: string;
  readonly name: string;
}

interface Life {
  readonly manager: DeviceManager;
  readonly registration: RegistrationServer;
  readonly podResources: UnixServer;
}

/**
 * A kubelet as device plugins and PodResources readers see it, on real unix sockets. Pods keep running while it is
 * down; devices that they hold are in its checkpoint.
 */
export class StandInKubelet {
  readonly paths: KubeletPaths;
  /** Every Register call, over all lives. */
  readonly registrations: RegistrationAttempt[] = [];
  /** Every Allocate call, over all lives. */
  readonly allocateCalls: AllocateCall[] = [];
  /** Every GetPreferredAllocation call, over all lives. */
  readonly preferenceCalls: PreferenceCall[] = [];
  /** Milliseconds by which PodResources answers late, as a node's kubelet does that has too much to do; default 0. */
  latenessMs = 0;
  /** What PodResources waits for with each answer, where a test wants to say itself when it arrives. */
  beforeAnswer: (() => Promise<void>) | undefined;
  /** What PodResources' List says instead of the pods that there are. */
  lie: ((pods: readonly ListedPod[]) => readonly ListedPod[]) | undefined;
  readonly #random: () => number;
  readonly #policy: "none" | "single-numa-node";
  readonly #pods = new Map<string, RunningPod>();
  #life: Life | undefined;
  #admission: Promise<unknown> = Promise.resolve();

  private constructor(options: StandInKubeletOptions) {
    this.paths = kubeletPaths({
      devicePlugins: join(options.root, "device-plugins"),
      podResources: join(options.root, "pod-resources/kubelet.sock"),
    });
    this.#random = seededRandom(options.seed ?? 1);
    this.#policy = options.topologyPolicy ?? "none";
  }

  /** A kubelet that was never started: its directory need not exist. */
  static create(options: StandInKubeletOptions): StandInKubelet {
    return new StandInKubelet(options);
  }

  /** A running kubelet. */
  static async start(options: StandInKubeletOptions): Promise<StandInKubelet> {
    const kubelet = new StandInKubelet(options);
    await kubelet.start();
    return kubelet;
  }

  /** Begins a life: reads the checkpoint, deletes every socket in the plugin directory, serves. */
  async start(): Promise<void> {
    if (this.#life !== undefined) throw new Error("this kubelet runs already");
    const directory = this.paths.pluginDirectory;
    await mkdir(directory, { recursive: true, mode: 0o750 });
    const manager = new DeviceManager({
      directory,
      random: this.#random,
      activePods: () => new Set([...this.#pods.values()].map(({ uid }) => uid)),
      calls: this.allocateCalls,
      preferenceCalls: this.preferenceCalls,
    });
    const registration = new RegistrationServer({
      directory,
      handler: manager,
      attempts: this.registrations,
    });
    await wipeSockets(directory);
    const podResources = await servePodResources({
      socketPath: this.paths.podResourcesSocket,
      manager,
      pods: () => [...this.#pods.values()],
      lie: (pods) => this.lie?.(pods) ?? pods,
      random: this.#random,
      bucket: new TokenBucket({ perSecond: 100, burst: 10 }),
      late: async () => {
        if (this.latenessMs > 0) await delay(this.latenessMs);
        await this.beforeAnswer?.();
      },
    });
    await registration.listen();
    this.#life = { manager, registration, podResources };
  }

  /** Dies. Pods stay, plugins are not notified, connections break. */
  async stop(): Promise<void> {
    const life = this.#life;
    this.#life = undefined;
    await life?.registration.die();
    await life?.podResources.close();
  }

  /** Dies and comes back. @param options.downMs milliseconds in between; default 0 */
  async restart(options: { readonly downMs?: number } = {}): Promise<void> {
    await this.stop();
    if (options.downMs !== undefined) await delay(options.downMs);
    await this.start();
  }

  /**
   * The node goes down and comes up again: as {@link restart}, but no container runs any more. What kubelet's
   * directories hold survives; {@link readmitPods} is what kubelet does next.
   * @param whileDown what the test does to the rest of the node
   */
  async reboot(whileDown: () => Promise<void> = async () => undefined): Promise<void> {
    await this.stop();
    await whileDown();
    await this.start();
  }

  /**
   * Admits the pods from before a reboot again, from the checkpoint: Allocate is not called for what is in it, and the
   * runtime makes the containers with the paths of the answer of then. A pod that is refused is Failed for good.
   */
  async readmitPods(): Promise<ReadonlyMap<string, Admission>> {
    const admissions = new Map<string, Admission>();
    for (const [name, { uid, request }] of [...this.#pods]) {
      admissions.set(name, await this.#inTurn(() => this.#allocate(request, uid)));
    }
    return admissions;
  }

  /** What the node reports of a resource; undefined when it was never registered. */
  capacity(resource: string): { readonly capacity: number; readonly allocatable: number } | undefined {
    return this.#alive().manager.capacity(resource);
  }

  /** Waits until the node reports so many healthy devices. */
  async waitForAllocatable(resource: string, count: number, deadlineMs = 30_000): Promise<void> {
    const end = performance.now() + deadlineMs;
    while (this.#life?.manager.capacity(resource)?.allocatable !== count) {
      if (performance.now() > end) {
        const now = this.#life?.manager.capacity(resource)?.allocatable ?? "none";
        throw new Error(`${resource}: ${now} allocatable after ${deadlineMs} ms, ${count} were expected`);
      }
      await delay(5);
    }
  }

  /**
   * Admits a pod, one after the other. Refused by kubelet it is Failed for good, as with the real one. Rejects
   * where kubelet would admit it but the runtime could not make its containers.
   */
  async admitPod(request: PodRequest): Promise<Admission> {
    return this.#inTurn(async () => {
      if (this.#pods.has(key(request))) throw new Error(`pod ${key(request)} exists already`);
      const uid = request.uid ?? randomUUID();
      this.#pods.set(key(request), { uid, request });
      return this.#allocate(request, uid);
    });
  }

  /** The container's devices, environment and mounts as kubelet would give them to the runtime now. */
  containers(name: PodName): readonly AdmittedContainer[] {
    const pod = this.#pods.get(key(name));
    if (pod === undefined) throw new Error(`no pod ${key(name)}`);
    const { manager } = this.#alive();
    return [...(pod.request.initContainers ?? []), ...pod.request.containers].map((container) =>
      containerOptions(container.name, manager.held(pod.uid, container.name), this.#random),
    );
  }

  /** The pod is over. Its devices are freed at the next allocation or PodResources List; nothing is notified. */
  removePod(name: PodName): void {
    if (!this.#pods.delete(key(name))) throw new Error(`no pod ${key(name)}`);
  }

  /** Drops a plugin's connection, as kubelet does when another stream under the resource's name has ended. */
  cutPlugin(resource: string): void {
    const client = this.#alive().registration.client(resource);
    if (client === undefined) throw new Error(`no plugin of ${resource} is registered`);
    client.close();
  }

  /** Recreates kubelet.sock without a restart, as kubelet does when its registration server broke. */
  async replaceSocket(): Promise<void> {
    await this.#alive().registration.listenAnew();
  }

  #inTurn<Value>(task: () => Promise<Value>): Promise<Value> {
    const admitted = this.#admission.then(task);
    // The next pod is admitted even if this one failed.
    this.#admission = admitted.catch(() => undefined);
    return admitted;
  }

  async #allocate(request: PodRequest, uid: string): Promise<Admission> {
    const { manager } = this.#alive();
    const refuse = (
      reason: "UnexpectedAdmissionError" | "TopologyAffinityError",
      message: string,
    ): Admission => {
      // A Failed pod is not active; what its first containers were given is freed with the next collection.
      this.#pods.delete(key(request));
      return { phase: "Failed", uid, reason, message };
    };
    const affinities = new Map<string, Affinity>();
    if (this.#policy === "single-numa-node") {
      for (const container of [...(request.initContainers ?? []), ...request.containers]) {
        // What it holds already hints at where it is.
        if (manager.held(uid, container.name).length > 0) continue;
        const node = singleNodeFor(container.resources ?? {}, (resource) => manager.freeDevices(resource));
        if (node === "impossible") {
          return refuse("TopologyAffinityError", "Resources cannot be allocated with Topology locality");
        }
        if (node !== undefined) affinities.set(container.name, [node]);
      }
    }
    try {
      await manager.admit(request, uid, ({ name }: ContainerRequest) => affinities.get(name));
    } catch (error) {
      const message = `Allocate failed due to ${(error as Error).message}, which is unexpected`;
      return refuse("UnexpectedAdmissionError", message);
    }
    const containers = this.containers(request);
    const problems = containers.flatMap(mountProblems);
    if (problems.length > 0) throw new Error(`CreateContainerError: ${problems.join("; ")}`);
    return { phase: "Running", uid, containers };
  }

  #alive(): Life {
    if (this.#life === undefined) throw new Error("this kubelet is down");
    return this.#life;
  }
}

function key({ namespace, name }: PodName): string {
  return `${namespace}/${name}`;
}
