// A container runtime alone in a machine of its own, with NRI, and the part of kubelet that makes and ends sandboxes.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { credentials, makeClientConstructor } from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import type { Child } from "../machine/child.ts";
import type { LabRun } from "../machine/lab-run.ts";
import { waitUntil } from "../machine/wait-until.ts";
import { kubernetesParts } from "./kubernetes-parts.ts";
import { PAUSE, writeImage } from "./local-image.ts";
import { installPrograms, NodeMachine } from "./node-machine.ts";
import { type RuntimePlaces, type RuntimeProgram, runtimeProgram } from "./nri-programs.ts";

const CRI = loadSync(join(import.meta.dirname, "../fixtures/cri/sandboxes.proto"), { keepCase: true });
const SERVICE = "runtime.v1.RuntimeService";
/** CRI: a process namespace for each container, as kubelet asks for by default. */
const OWN_PROCESSES = 1;
/** CRI gives a sandbox that long. */
const CALL_MS = 120_000;

/** A pod as kubelet asks for it. */
export interface CriPod {
  readonly name: string;
  readonly uid: string;
  /** Which sandbox of the pod. */
  readonly attempt?: number;
  readonly isHostNetwork?: boolean;
}

/** CRI-O or containerd, as the environment says, which runs until its lab run ends. */
export class NriRuntime {
  readonly #run: LabRun;
  readonly #program: RuntimeProgram;
  readonly machine: NodeMachine;
  /** Sockets and the runtime's state, which this machine sees too. */
  readonly #directory: string;
  /** Containers by their sandbox. */
  readonly #containers = new Map<string, string[]>();
  #running: Child | undefined;
  #starts = 0;

  constructor(run: LabRun) {
    this.#run = run;
    this.#program = runtimeProgram(process.env);
    this.machine = new NodeMachine(run, 1);
    this.#directory = join(this.machine.disk, "c");
  }

  /** As it names itself to plugins. */
  get name(): RuntimeProgram["name"] {
    return this.#program.name;
  }

  /** Where it looks for CDI files. */
  get cdiDirectory(): string {
    return join(this.#directory, "cdi");
  }

  get nriSocket(): string {
    return join(this.#directory, "nri/nri.sock");
  }

  async start(): Promise<void> {
    const { cniPlugins } = kubernetesParts(process.env, ["cniPlugins"]);
    await this.machine.boot();
    const plugins = ["bridge", "loopback", "host-local"];
    await installPrograms(
      this.machine,
      Object.fromEntries(plugins.map((name) => [`/opt/cni/bin/${name}`, join(cniPlugins, name)])),
    );
    const network = {
      ...{ cniVersion: "1.0.0", name: "pods", type: "bridge", bridge: "cni0", isGateway: true },
      ipam: { type: "host-local", subnet: "10.244.0.0/24", routes: [{ dst: "0.0.0.0/0" }] },
    };
    await this.machine.write("/etc/cni/net.d/10-pods.conf", JSON.stringify(network));
    await this.machine.write(...this.#program.config(this.#places));
    await this.#start();
    const image = await writeImage(join(this.#run.directory, "pause"), PAUSE);
    await this.#program.loadImage(this.machine, image, this.#places);
  }

  /** SIGKILL, and another process. */
  async restart(): Promise<void> {
    this.#running?.kill("SIGKILL");
    await this.#running?.ended;
    await this.#start();
  }

  /** @returns the sandbox's id. @throws what the runtime says */
  async runPod({ name, uid, attempt = 0, isHostNetwork = false }: CriPod): Promise<string> {
    const config = {
      ...this.#sandboxConfig({ name, uid, attempt }),
      linux: {
        cgroup_parent: this.machine.cgroup,
        security_context: { namespace_options: { network: isHostNetwork ? 2 : 0, pid: OWN_PROCESSES } },
      },
    };
    const { pod_sandbox_id: id } = await this.#call<{ readonly pod_sandbox_id: string }>("RunPodSandbox", {
      config,
    });
    return id;
  }

  /** Creates and starts a container, with a CDI device where one is given. @throws what the runtime says */
  async runContainer(sandbox: string, pod: CriPod, name: string, cdiDevice?: string): Promise<void> {
    const { container_id } = await this.#call<{ readonly container_id: string }>("CreateContainer", {
      pod_sandbox_id: sandbox,
      config: {
        ...{ metadata: { name }, image: { image: PAUSE.name }, log_path: `${name}.log` },
        linux: { security_context: { namespace_options: { pid: OWN_PROCESSES } } },
        CDI_devices: cdiDevice === undefined ? [] : [{ name: cdiDevice }],
      },
      sandbox_config: this.#sandboxConfig(pod),
    });
    this.#containers.set(sandbox, [...(this.#containers.get(sandbox) ?? []), container_id]);
    await this.#call("StartContainer", { container_id });
  }

  async stopPod(id: string): Promise<void> {
    await this.#call("StopPodSandbox", { pod_sandbox_id: id });
  }

  /** As kubelet does, its containers before: containerd would wait for ever for itself if a plugin connected meanwhile. */
  async removePod(id: string): Promise<void> {
    for (const container_id of this.#containers.get(id) ?? [])
      await this.#call("RemoveContainer", { container_id });
    await this.#call("RemovePodSandbox", { pod_sandbox_id: id });
  }

  #sandboxConfig({ name, uid, attempt = 0 }: CriPod): object {
    return {
      metadata: { name, uid, namespace: "default", attempt },
      log_directory: `/var/log/pods/${uid}`,
    };
  }

  get #places(): RuntimePlaces {
    const { nriSocket, cdiDirectory } = this;
    return { socket: join(this.#directory, "cri.sock"), nriSocket, cdiDirectory };
  }

  async #start(): Promise<void> {
    this.#starts += 1;
    const [program = "", ...args] = this.#program.command;
    this.#running = await this.machine.start(`${this.name}-${this.#starts}`, program, args);
    // A sandbox that is not there is stopped.
    const hasCri = async () =>
      existsSync(this.#places.socket) &&
      this.stopPod("none").then(
        () => true,
        () => false,
      );
    const what = `${this.name} answers`;
    await Promise.race([waitUntil(hasCri, { what, everyMs: 200 }), this.#running.died]);
  }

  #call<Answer = unknown>(method: string, request: object): Promise<Answer> {
    const definition = CRI[SERVICE] as Parameters<typeof makeClientConstructor>[0];
    const client = new (makeClientConstructor(definition, SERVICE))(
      `unix://${this.#places.socket}`,
      credentials.createInsecure(),
    );
    return new Promise<Answer>((resolve, reject) => {
      const deadline = Date.now() + CALL_MS;
      client[method]?.call(client, request, { deadline }, (error: Error | null, answer: Answer) =>
        error === null ? resolve(answer) : reject(error),
      );
    }).finally(() => client.close());
  }
}
