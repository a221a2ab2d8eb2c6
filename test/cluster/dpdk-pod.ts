import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { type ContainerOptions, type Pod, startPod } from "../lab/pod.ts";
import { startTestpmd, type Testpmd } from "../lab/testpmd.ts";
import type { LabRun } from "../machine/lab-run.ts";
import { DEPLOY, readManifests, theOnly } from "../manifests/manifest.ts";
import type { AdmittedContainer } from "../stand-in/kubelet/pod.ts";
import type { SelectedNetwork } from "../stand-in/multus/network.ts";
import { type ClusterNode, SOCKETS } from "./cluster-node.ts";

/** The container of an example pod: whom it runs as, and its shell command. */
export interface ExampleContainer {
  readonly security: Required<Pick<ContainerOptions, "uid" | "runtimeSeccomp">>;
  readonly command: string;
}

/** Reads a pod of deploy/examples. @throws Error for one that does not run under the runtime's seccomp profile */
export function exampleContainer(file = "dpdk-pod.yaml"): ExampleContainer {
  const [container] = theOnly(readManifests(join(DEPLOY, "examples", file)), "Pod")["spec"].containers;
  const { runAsUser, capabilities, seccompProfile } = container.securityContext;
  if (seccompProfile.type !== "RuntimeDefault") throw new Error(`${file}: another seccomp profile`);
  const security = { uid: runAsUser, runtimeSeccomp: capabilities.add ?? [] };
  return { security, command: container.command.at(-1) };
}

/** A pod with a DPDK application to be. */
export interface DpdkPodOptions {
  readonly run: LabRun;
  readonly node: ClusterNode;
  readonly name: string;
  readonly network: SelectedNetwork;
  readonly mac: string;
}

/** A pod whose container is dpdk-testpmd, as deploy/examples/dpdk-pod.yaml has it. */
export class DpdkPod {
  readonly #options: DpdkPodOptions;
  readonly #containerId = randomBytes(32).toString("hex");
  #container: AdmittedContainer | undefined;
  #pod: Pod | undefined;
  #uid = "";
  #testpmd: Testpmd | undefined;

  constructor(options: DpdkPodOptions) {
    this.#options = options;
  }

  /** kubelet admits the pod, and Multus attaches its network as `net1`. */
  async attach(): Promise<void> {
    const { node, name, run, network, mac } = this.#options;
    const admission = await node.kubelet.admitPod({
      namespace: "tests",
      name,
      containers: [{ name: "testpmd", resources: { [SOCKETS]: 1 } }],
    });
    if (admission.phase === "Failed") throw new Error(`pod ${name}: ${admission.message}`);
    this.#uid = admission.uid;
    [this.#container] = admission.containers;
    this.#pod = await startPod(run, name);
    await node.multus.attach({ ...this.#sandbox(), networks: [{ ...network, interface: "net1", mac }] });
  }

  /** Starts testpmd on the path that the environment variable of the device plugin and the interface's name make. */
  async start(peerMac: string): Promise<Testpmd> {
    if (this.#pod === undefined || this.#container === undefined) throw new Error("attach() comes first");
    const { envs, mounts } = this.#container;
    this.#testpmd = await startTestpmd(this.#pod, {
      ...exampleContainer().security,
      socketPath: `${envs["VHOSTUSER_SOCKETS_DIRECTORY"]}/net1/vhost.sock`,
      mac: this.#options.mac,
      peerMac,
      mounts,
      env: envs,
    });
    await this.#testpmd.waitForSwitch();
    return this.#testpmd;
  }

  /** The application ends, the network is detached, the pod deleted. */
  async remove(): Promise<void> {
    const { node, name } = this.#options;
    await this.#testpmd?.stop();
    await node.multus.detach(this.#sandbox());
    await this.#pod?.close();
    node.kubelet.removePod({ namespace: "tests", name });
  }

  #sandbox() {
    const pod = { namespace: "tests", name: this.#options.name, uid: this.#uid };
    return { pod, containerId: this.#containerId, netns: this.#pod?.network.path ?? "" };
  }
}
