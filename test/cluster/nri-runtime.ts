// containerd alone in a machine of its own, with NRI, and the part of kubelet that makes and ends sandboxes.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { credentials, makeClientConstructor } from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import type { Child } from "../machine/child.ts";
import type { LabRun } from "../machine/lab-run.ts";
import { waitUntil } from "../machine/wait-until.ts";
import { type KubernetesParts, shimDirectory } from "./kubernetes-parts.ts";
import { PAUSE, writeImage } from "./local-image.ts";
import { installPrograms, NodeMachine } from "./node-machine.ts";

const CRI = loadSync(join(import.meta.dirname, "../fixtures/cri/sandboxes.proto"), { keepCase: true });
const SERVICE = "runtime.v1.RuntimeService";
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

type Parts = Pick<KubernetesParts, "containerd" | "ctr" | "runc" | "cniPlugins">;

/** A containerd that runs until its lab run ends. */
export class NriRuntime {
  readonly #run: LabRun;
  readonly #parts: Parts;
  readonly machine: NodeMachine;
  /** Sockets and the runtime's state, which this machine sees too. */
  readonly #directory: string;
  #containerd: Child | undefined;
  #starts = 0;

  constructor(run: LabRun, parts: Parts) {
    this.#run = run;
    this.#parts = parts;
    this.machine = new NodeMachine(run, 1);
    this.#directory = join(this.machine.disk, "c");
  }

  /** Where it looks for CDI files. */
  get cdiDirectory(): string {
    return join(this.#directory, "cdi");
  }

  get nriSocket(): string {
    return join(this.#directory, "nri/nri.sock");
  }

  async start(): Promise<void> {
    const { cniPlugins, ctr, runc } = this.#parts;
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
    await this.machine.write(
      "/etc/containerd/config.toml",
      `version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = "${this.#socket}"
[plugins."io.containerd.nri.v1.nri"]
  disable = false
  socket_path = "${this.nriSocket}"
  plugin_path = "/run/no-plugins"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "${PAUSE.name}"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  cdi_spec_dirs = ["${this.cdiDirectory}"]
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      BinaryName = "${runc}"
`,
    );
    await this.#startContainerd();
    const image = await writeImage(join(this.#run.directory, "pause"), PAUSE);
    await this.machine.exec(ctr, ["-a", this.#socket, "-n", "k8s.io", "images", "import", image]);
  }

  /** SIGKILL, and another process. */
  async restart(): Promise<void> {
    this.#containerd?.kill("SIGKILL");
    await this.#containerd?.ended;
    await this.#startContainerd();
  }

  /** @returns the sandbox's id. @throws what the runtime says */
  async runPod({ name, uid, attempt = 0, isHostNetwork = false }: CriPod): Promise<string> {
    const config = {
      ...this.#sandboxConfig({ name, uid, attempt }),
      linux: {
        cgroup_parent: this.machine.cgroup,
        security_context: { namespace_options: { network: isHostNetwork ? 2 : 0 } },
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
        CDI_devices: cdiDevice === undefined ? [] : [{ name: cdiDevice }],
      },
      sandbox_config: this.#sandboxConfig(pod),
    });
    await this.#call("StartContainer", { container_id });
  }

  async stopPod(id: string): Promise<void> {
    await this.#call("StopPodSandbox", { pod_sandbox_id: id });
  }

  async removePod(id: string): Promise<void> {
    await this.#call("RemovePodSandbox", { pod_sandbox_id: id });
  }

  #sandboxConfig({ name, uid, attempt = 0 }: CriPod): object {
    return {
      metadata: { name, uid, namespace: "default", attempt },
      log_directory: `/var/log/pods/${uid}`,
    };
  }

  get #socket(): string {
    return join(this.#directory, "containerd.sock");
  }

  async #startContainerd(): Promise<void> {
    const path = `PATH=${shimDirectory(this.#parts)}:/usr/sbin:/usr/bin:/sbin:/bin`;
    this.#starts += 1;
    const containerd = await this.machine.start(`containerd-${this.#starts}`, "env", [
      ...[path, this.#parts.containerd, "--config", "/etc/containerd/config.toml"],
    ]);
    this.#containerd = containerd;
    const answers = async () =>
      existsSync(this.#socket) &&
      this.machine.exec(this.#parts.ctr, ["-a", this.#socket, "version"]).then(
        () => true,
        () => false,
      );
    // CRI comes later than containerd's own services. A sandbox that is not there is stopped.
    const hasCri = async () =>
      (await answers()) &&
      this.stopPod("none").then(
        () => true,
        () => false,
      );
    await Promise.race([waitUntil(hasCri, { what: "containerd answers", everyMs: 200 }), containerd.died]);
  }

  #call<Answer = unknown>(method: string, request: object): Promise<Answer> {
    const definition = CRI[SERVICE] as Parameters<typeof makeClientConstructor>[0];
    const client = new (makeClientConstructor(definition, SERVICE))(
      `unix://${this.#socket}`,
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
