import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { type ContainerOptions, type Pod, startPod } from "../lab/pod.ts";
import { startTestpmd, type Testpmd } from "../lab/testpmd.ts";
import type { LabRun } from "../machine/lab-run.ts";
import { DEPLOY, readManifests, theOnly } from "../manifests/manifest.ts";
import type { FakeApiServer } from "../stand-in/api-server/fake-api-server.ts";
import type { AdmittedContainer } from "../stand-in/kubelet/pod.ts";
import type { SelectedNetwork } from "../stand-in/multus/network.ts";
import { type ClusterNode, SOCKETS } from "./cluster-node.ts";
import { type ClaimingPod, PodClaims } from "./pod-claims.ts";

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
  /** What it has its port by. */
  readonly port: { readonly network: SelectedNetwork } | { readonly claimAt: FakeApiServer };
  readonly mac: string;
}

/** A claim and its request, as deploy/examples/claim-pod.yaml calls them. */
const CLAIM = { claimName: "fast", requestName: "port" };
const CLAIMING: ClaimingPod = {
  metadata: { namespace: "tests" },
  spec: { resourceClaims: [{ name: "fast" }], networks: [{ name: "fast", resourceClaim: CLAIM }] },
};

/** A pod whose container is dpdk-testpmd, as deploy/examples/dpdk-pod.yaml or claim-pod.yaml has it. */
export class DpdkPod {
  readonly #options: DpdkPodOptions;
  readonly #containerId = randomBytes(32).toString("hex");
  readonly #claims: PodClaims | undefined;
  #container: AdmittedContainer | undefined;
  #pod: Pod | undefined;
  #uid = "";
  #testpmd: Testpmd | undefined;

  constructor(options: DpdkPodOptions) {
    this.#options = options;
    const { node, port } = options;
    this.#claims = "claimAt" in port ? new PodClaims(node, port.claimAt) : undefined;
  }

  /** kubelet admits the pod, and has its claim prepared or Multus attach its network as `net1`. */
  async attach(): Promise<void> {
    const { node, name, run, port, mac } = this.#options;
    const resources = this.#claims === undefined ? { [SOCKETS]: 1 } : {};
    const admission = await node.kubelet.admitPod({
      ...{ namespace: "tests", name },
      containers: [{ name: "testpmd", resources }],
    });
    if (admission.phase === "Failed") throw new Error(`pod ${name}: ${admission.message}`);
    this.#uid = admission.uid;
    [this.#container] = admission.containers;
    await this.#claims?.prepare({ name, uid: this.#uid }, CLAIMING);
    this.#pod = await startPod(run, name);
    if ("network" in port) {
      const networks = [{ ...port.network, interface: "net1", mac }];
      await node.multus.attach({ ...this.#sandbox(), networks });
    }
  }

  /** The switch's port of its claim. */
  get claimedPort(): string {
    return this.#claims?.portNames.join() ?? "";
  }

  /** Starts testpmd on the path that the variable of device plugin or claim, and the interface's name, make. */
  async start(peerMac: string): Promise<Testpmd> {
    if (this.#pod === undefined || this.#container === undefined) throw new Error("attach() comes first");
    const { envs, mounts } = this.#container;
    const { env = envs, mounts: ofClaim = [] } = this.#claims ?? {};
    this.#testpmd = await startTestpmd(this.#pod, {
      ...exampleContainer().security,
      socketPath:
        env["VHOSTUSER_CLAIM_FAST__PORT"] ?? `${env["VHOSTUSER_SOCKETS_DIRECTORY"]}/net1/vhost.sock`,
      mac: this.#options.mac,
      peerMac,
      mounts: [...mounts, ...ofClaim],
      env,
    });
    await this.#testpmd.waitForSwitch();
    return this.#testpmd;
  }

  /** The application ends, the network is detached or the claim given back, the pod deleted. */
  async remove(): Promise<void> {
    const { node, name, port } = this.#options;
    await this.#testpmd?.stop();
    if ("network" in port) await node.multus.detach(this.#sandbox());
    await this.#pod?.close();
    await this.#claims?.unprepare();
    node.kubelet.removePod({ namespace: "tests", name });
  }

  #sandbox() {
    const pod = { namespace: "tests", name: this.#options.name, uid: this.#uid };
    return { pod, containerId: this.#containerId, netns: this.#pod?.network.path ?? "" };
  }
}
