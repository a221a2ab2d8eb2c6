import { randomUUID } from "node:crypto";
import type { FakeApiServer } from "../stand-in/api-server/fake-api-server.ts";
import { DRIVER } from "../stand-in/dra/claim-object.ts";
import { deleteClaim, storeClaim } from "../stand-in/dra/stored-claim.ts";
import type { PodClaim } from "../stand-in/kubelet/dra-manager.ts";
import type { BenchNode } from "./bench-node.ts";
import { timeWork } from "./timed-program.ts";

/** A pod of kubelet with a claim of one port. */
export interface ClaimPod {
  readonly name: string;
  readonly uid: string;
  readonly claim: PodClaim;
}

/** Namespace of all pods of a bench. */
export const NAMESPACE = "bench";

/** kubelet's calls for the claims of pods. */
export class ClaimCalls {
  readonly #node: BenchNode;
  readonly #api: FakeApiServer;
  #pods = 0;

  constructor(node: BenchNode, api: FakeApiServer) {
    this.#node = node;
    this.#api = api;
    api.namespaces.add(NAMESPACE);
  }

  /** A pod that kubelet runs, and its claim as the scheduler leaves it. */
  async admit(): Promise<ClaimPod> {
    const pod = { namespace: NAMESPACE, name: `claiming-${this.#pods++}`, uid: randomUUID() };
    await this.#node.kubelet.admitPod({ ...pod, containers: [{ name: "c" }] });
    const claim = storeClaim(this.#api, {
      ...{ name: `${pod.name}-net`, namespace: NAMESPACE, podClaimName: "net", pods: [pod] },
      results: [{ pool: this.#node.name, device: "sockets" }],
    });
    return { ...pod, claim };
  }

  /** NodePrepareResources. @returns milliseconds */
  prepare({ uid, claim }: ClaimPod): Promise<number> {
    return timeWork(() => this.#node.dra.prepare(uid, DRIVER, [claim]));
  }

  /** NodeUnprepareResources, and the pod's end. @returns milliseconds of the call alone */
  async unprepare({ name, uid, claim }: ClaimPod): Promise<number> {
    const ms = await timeWork(() => this.#node.dra.unprepare(uid, DRIVER));
    this.#node.kubelet.removePod({ namespace: NAMESPACE, name });
    deleteClaim(this.#api, claim);
    return ms;
  }

  /** Whether the claim's status says what became of its device. */
  hasStatus({ claim: { namespace, name } }: ClaimPod): boolean {
    const { status } = this.#api.store.get(`${namespace}/resourceclaims`, name) as {
      readonly status?: { readonly devices?: readonly unknown[] };
    };
    return status?.devices?.length === 1;
  }
}
