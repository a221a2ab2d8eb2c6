import type { Json, Stored } from "../../stand-in/api-server/object-store.ts";
import type { DoneWrite } from "../simulated-api.ts";
import { COOLDOWN_SECONDS, type Launcher, type VmCluster } from "./vm-cluster.ts";

/** What must be so after every step, whatever fails. */
export class ClaimInvariants {
  /** What was broken first. */
  failure: Error | undefined;
  readonly #cluster: VmCluster;
  /** By address: the claim that last had it, and when that was gone. */
  readonly #lastOwners = new Map<string, { readonly uid: string; goneAtMs: number | undefined }>();

  constructor(cluster: VmCluster) {
    this.#cluster = cluster;
  }

  readonly broken = (what: unknown): void => {
    this.#cluster.note(`BROKEN ${what}`);
    this.failure ??= new Error(String(what));
  };

  /** Published addresses never change, and are allocated for their claim alone. */
  onWrite({ collection, name, before, after }: DoneWrite): void {
    if (!collection.endsWith("/ipamclaims") || after === undefined) return;
    const [was, is] = [ipsOf(before), ipsOf(after)];
    if (before?.metadata.uid === after.metadata.uid && was.length > 0 && was.join() !== is.join())
      this.broken(`claim ${collection}/${name} had ${was} and has ${is}`);
    if (was.length > 0 || is.length === 0) return;
    this.#cluster.note(`claim ${collection}/${name} ${after.metadata.uid}: ${is}`);
    if (is.length !== 2) this.broken(`claim ${collection}/${name} has ${is}, of one pool`);
    const { uid } = after.metadata;
    for (const ip of is) {
      const owner = this.#ownerOf(ip);
      if (owner !== uid) this.broken(`claim ${uid} has ${ip}, which is allocated to ${owner}`);
      const last = this.#lastOwners.get(ip);
      const restMs = this.#cluster.simulation.nowMs - (last?.goneAtMs ?? Number.NEGATIVE_INFINITY);
      if (
        last !== undefined &&
        last.uid !== uid &&
        (last.goneAtMs === undefined || restMs < COOLDOWN_SECONDS * 1000)
      )
        this.broken(`claim ${uid} has ${ip}, which claim ${last.uid} had ${restMs} ms ago`);
      const holder = [...this.#cluster.launchers].find(
        ({ given }) => given?.claim !== uid && given?.ips.includes(ip),
      );
      if (holder !== undefined)
        this.broken(`claim ${uid} has ${ip}, with which ${holder.pod.metadata.name} runs`);
      this.#lastOwners.set(ip, { uid, goneAtMs: undefined });
    }
  }

  onClaimGone({ metadata: { uid } }: Stored): void {
    for (const owner of this.#lastOwners.values()) {
      if (owner.uid === uid) owner.goneAtMs ??= this.#cluster.simulation.nowMs;
    }
  }

  /** A pod gets what the claim of its VM has, or what it had before, and nothing that another VM runs with. */
  onGiven(launcher: Launcher, ips: readonly string[], claim: Stored | undefined): void {
    const { name } = launcher.pod.metadata;
    if (launcher.network !== "blue-net") this.broken(`${name} got ${ips}, of the claim of another network`);
    const had = launcher.had?.ips.join() === ips.join() ? launcher.had : undefined;
    // It may have been deleted while the answer was on its way.
    const isOther = claim !== undefined && ipsOf(claim).length > 0 && ipsOf(claim).join() !== ips.join();
    if (isOther && had === undefined) this.broken(`${name} got ${ips}, and its claim has ${ipsOf(claim)}`);
    const { claim: formerClaim = "gone" } = had ?? {};
    launcher.given = { claim: isOther ? formerClaim : (claim?.metadata.uid ?? formerClaim), ips };
    for (const other of this.#cluster.launchers) {
      if (other.vm !== launcher.vm && other.given?.ips.some((ip) => ips.includes(ip)))
        this.broken(`${name} and ${other.pod.metadata.name} both run with one of ${ips}`);
    }
  }

  /** After everything worked for long enough: every VM runs, and nothing is allocated to a claim that is gone. */
  atPeace(): void {
    const { launchers, server } = this.#cluster;
    for (const { pod, given, network } of launchers) {
      const isRunning = given !== undefined;
      if (isRunning !== (network === "blue-net"))
        this.broken(`${pod.metadata.name} of ${network}: ${given?.ips}`);
    }
    const published = new Map(
      server.store.all("ipamclaims").map((claim) => [claim.metadata.uid, ipsOf(claim)]),
    );
    for (const { metadata, spec } of server.store.all("addressallocations")) {
      const { address, owner } = spec as { readonly address: string; readonly owner: Json };
      const ips = [
        ...(published.get(String(owner["uid"])) ?? []),
        // Of a claim that was deleted by force.
        ...[...launchers].flatMap(({ given }) => given?.ips ?? []),
      ];
      if (!ips.some((ip) => ip.startsWith(`${address}/`)))
        this.broken(`${metadata.name} is allocated, and no claim has it`);
    }
  }

  #ownerOf(ip: string): unknown {
    const address = ip.split("/")[0];
    const found = this.#cluster.server.store
      .all("addressallocations")
      .find(({ spec }) => (spec as Json)["address"] === address);
    return (found?.["spec"] as { readonly owner?: Json } | undefined)?.owner?.["uid"];
  }
}

function ipsOf(claim: Stored | undefined): readonly string[] {
  return ((claim?.["status"] as Json | undefined)?.["ips"] ?? []) as readonly string[];
}
