import { basename, dirname } from "node:path";
import { portName } from "../../src/names/port-name.ts";
import type { Mount } from "../lab/pod.ts";
import type { FakeApiServer } from "../stand-in/api-server/fake-api-server.ts";
import { DRIVER } from "../stand-in/dra/claim-object.ts";
import { deleteClaim, storeClaim } from "../stand-in/dra/stored-claim.ts";
import { resolveCdi } from "../stand-in/kubelet/cdi-runtime.ts";
import type { PodClaim } from "../stand-in/kubelet/dra-manager.ts";
import type { VirtualMachineInstance } from "../stand-in/virt-launcher/vmi.ts";
import type { ClusterNode } from "./cluster-node.ts";

/** What of a pod's claims is known before they are made: their names in it, and the requests that its networks use. */
export interface ClaimingPod {
  readonly metadata: Pick<VirtualMachineInstance["metadata"], "namespace">;
  readonly spec: Pick<VirtualMachineInstance["spec"], "resourceClaims" | "networks">;
}

/** The claims of a pod, which Kubernetes makes from the templates that the pod or its VM names. */
export class PodClaims {
  readonly #node: ClusterNode;
  readonly #api: FakeApiServer;
  #env: Readonly<Record<string, string>> = {};
  #uid = "";
  #claims: readonly PodClaim[] = [];
  #mounts: readonly Mount[] = [];

  /** @param api has them, and the node's daemon reads them there */
  constructor(node: ClusterNode, api: FakeApiServer) {
    this.#node = node;
    this.#api = api;
  }

  /** The scheduler gives each request a port of the node, and kubelet has them prepared before it makes the sandbox. */
  async prepare(
    pod: { readonly name: string; readonly uid: string },
    { metadata: { namespace }, spec }: ClaimingPod,
  ): Promise<void> {
    this.#uid = pod.uid;
    this.#claims = (spec.resourceClaims ?? []).map(({ name: podClaimName }) => {
      const requests = (spec.networks ?? []).flatMap(({ resourceClaim: claim }) =>
        claim?.claimName === podClaimName ? [claim.requestName] : [],
      );
      return storeClaim(this.#api, {
        ...{ name: `${pod.name}-${podClaimName}`, namespace, podClaimName, pods: [pod] },
        results: requests.map((request) => ({ request, pool: this.#node.name, device: "sockets" })),
      });
    });
    await this.#node.dra.waitForDriver(DRIVER);
    const devices = await this.#node.dra.prepare(pod.uid, DRIVER, this.#claims);
    const ids = devices.flatMap((device) => device.cdi_device_ids);
    const { env, mounts } = resolveCdi(this.#node.cdiDirectory, ids);
    this.#env = Object.fromEntries(env.map((line) => line.split("=") as [string, string]));
    this.#mounts = mounts.map(({ options, ...paths }) => ({ ...paths, readOnly: options.includes("ro") }));
  }

  /** What the runtime mounts in each container that has the claims: sockets' directories and metadata. */
  get mounts(): readonly Mount[] {
    return this.#mounts;
  }

  /** What the runtime sets in each of them. */
  get env(): Readonly<Record<string, string>> {
    return this.#env;
  }

  /** Host directories of the sockets. */
  get directories(): readonly string[] {
    return this.#mounts.flatMap(({ hostPath }) => (hostPath.endsWith(".json") ? [] : [hostPath]));
  }

  /** The switch's ports. */
  get portNames(): readonly string[] {
    return this.directories.map((path) => portName(basename(dirname(path)), basename(path)));
  }

  /** The pod's containers are gone; its claims are deleted with the pod. */
  async unprepare(): Promise<void> {
    await this.#node.dra.unprepare(this.#uid, DRIVER);
    for (const claim of this.#claims) deleteClaim(this.#api, claim);
  }
}
