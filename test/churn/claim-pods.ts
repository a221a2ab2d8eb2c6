import { randomUUID } from "node:crypto";
import { basename, dirname } from "node:path";
import { isDeepStrictEqual } from "node:util";
import type { ClusterNode } from "../cluster/cluster-node.ts";
import type { FakeApiServer } from "../stand-in/api-server/fake-api-server.ts";
import { DRIVER, portParameters } from "../stand-in/dra/claim-object.ts";
import { deleteClaim, storeClaim } from "../stand-in/dra/stored-claim.ts";
import { resolveCdi } from "../stand-in/kubelet/cdi-runtime.ts";
import type { KubeletDevice, PodClaim } from "../stand-in/kubelet/dra-manager.ts";
import type { NetworkVariant } from "./network-variants.ts";

/** A pod with a claim. */
export interface ClaimPod {
  readonly name: string;
  readonly uid: string;
  readonly claim: PodClaim;
  /** What its DeviceClass says of its ports. */
  readonly network: NetworkVariant;
  /** What Prepare answered; undefined where kubelet has to call it again. */
  devices?: readonly KubeletDevice[] | undefined;
  /** Why the last Prepare failed. */
  problem?: string | undefined;
}

/** One port that a prepared claim has. */
export interface ClaimPort {
  readonly pod: ClaimPod;
  readonly allocationId: string;
  readonly interfaceName: string;
  /** Host directory of its socket. */
  readonly directory: string;
}

const NAMESPACE = "tests";
/** What a call may fail with while the daemon or kubelet ends and starts. */
const DISTURBED = /UNAVAILABLE|CANCELLED|not registered|the daemon stops/;

/** The pods with claims of a node, and kubelet's calls for them. */
export class ClaimPods {
  readonly pods: ClaimPod[] = [];
  /** Claims that kubelet has to unprepare still: their pods are over. */
  readonly ended: ClaimPod[] = [];
  readonly #node: ClusterNode;
  readonly #api: FakeApiServer;
  readonly #keysOf: (network: NetworkVariant) => object;
  #named = 0;

  /** @param keysOf what a DeviceClass has for the ports of a network */
  constructor(node: ClusterNode, api: FakeApiServer, keysOf: (network: NetworkVariant) => object) {
    this.#keysOf = keysOf;
    this.#node = node;
    this.#api = api;
  }

  /** Kubelet runs a pod whose claim has so many ports. */
  async admit(network: NetworkVariant, ports: number): Promise<ClaimPod> {
    const name = `claiming-${this.#named++}`;
    const uid = randomUUID();
    await this.#node.kubelet.admitPod({ namespace: NAMESPACE, name, uid, containers: [{ name: "c" }] });
    const claim = storeClaim(this.#api, {
      ...{
        name: `${this.#node.name}-${name}`,
        namespace: NAMESPACE,
        podClaimName: "net",
        pods: [{ name, uid }],
      },
      results: Array.from({ length: ports }, () => ({ pool: this.#node.name, device: "sockets" })),
      config: [{ source: "FromClass", parameters: portParameters(this.#keysOf(network)) }],
    });
    const pod: ClaimPod = { name, uid, claim, network };
    this.pods.push(pod);
    return pod;
  }

  /**
   * Prepare. Kubelet retries what fails.
   * @throws Error where the answer differs from that of an earlier call
   */
  async prepare(pod: ClaimPod): Promise<void> {
    const { claim } = pod;
    try {
      const answers = await this.#node.dra.call<{ readonly devices: readonly KubeletDevice[] }>(
        ...(["NodePrepareResources", DRIVER, [claim]] as const),
      );
      pod.problem = undefined;
      const devices = answers[claim.uid]?.devices ?? [];
      pod.devices ??= devices;
      if (!isDeepStrictEqual(pod.devices, devices))
        pod.problem = `${JSON.stringify(devices)}, before ${JSON.stringify(pod.devices)}`;
    } catch (error) {
      pod.problem = String(error);
      return;
    }
    if (pod.problem !== undefined) throw new Error(`two Prepares of ${claim.name}: ${pod.problem}`);
  }

  /**
   * Unprepare, of a claim that may never have been prepared. @returns whether it was answered
   * @throws Error where it fails though the daemon runs
   */
  async unprepare({ claim }: Pick<ClaimPod, "claim">): Promise<boolean> {
    try {
      await this.#node.dra.call("NodeUnprepareResources", DRIVER, [claim]);
      return true;
    } catch (error) {
      if (DISTURBED.test(String(error))) return false;
      throw error;
    }
  }

  /** The pod is over and its claim deleted. Kubelet has forgotten the claim, with its checkpoint. */
  forget(pod: ClaimPod): void {
    this.#node.kubelet.removePod({ namespace: NAMESPACE, name: pod.name });
    deleteClaim(this.#api, pod.claim);
    this.pods.splice(this.pods.indexOf(pod), 1);
  }

  /** The pod is over and its claim deleted and unprepared. */
  async end(pod: ClaimPod): Promise<void> {
    this.forget(pod);
    if (!(await this.unprepare(pod))) this.ended.push(pod);
  }

  /** The ports of prepared claims. @throws Error where the runtime would not find what kubelet was given */
  ports(): readonly ClaimPort[] {
    return this.pods.flatMap((pod) => {
      const ids = (pod.devices ?? []).flatMap(({ cdi_device_ids }) => cdi_device_ids);
      const { mounts } = resolveCdi(this.#node.cdiDirectory, ids);
      const directories = mounts.map(({ hostPath }) => hostPath).filter((path) => !path.endsWith(".json"));
      return directories.map((directory) => ({
        ...{ pod, directory, allocationId: basename(dirname(directory)), interfaceName: basename(directory) },
      }));
    });
  }
}
