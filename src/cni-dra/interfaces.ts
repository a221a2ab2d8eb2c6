// The life of the interfaces of all claims on this node: ADD when a sandbox starts, DEL when it ends, each on disk before.
import { refuseIn } from "../dra/claim.ts";
import { Failure, toFailure } from "../failure/failure.ts";
import type { PodSandbox } from "../protocols/nri/messages.ts";
import type { NriHandler } from "../protocols/nri/nri-plugin.ts";
import { KeyedMutex } from "../sync/keyed-mutex.ts";
import { exponentialBackoff, WorkQueue } from "../sync/work-queue.ts";
import {
  attachInterface,
  type CheckedInterface,
  checkInterface,
  delEnding,
  ending,
  fieldsOf,
  type InterfacesOptions,
  isEnding,
  saveInterface,
} from "./attach-interface.ts";
import { showReadiness } from "./interface-files.ts";
import {
  type Attachment,
  type InterfacePlan,
  type InterfaceRecord,
  interfaceKey,
} from "./interface-record.ts";
import { PendingDels } from "./pending-dels.ts";

/** A sandbox that a runtime is still making may be missing from its list, for as long as CRI gives it. */
const STARTING_MS = 5 * 60_000;
/** Between tries of an ADD for a sandbox that started without the driver: no hook of the runtime need come again. */
const ADD_BACKOFF = exponentialBackoff(1_000, 60_000);
const ADD_WORKERS = 4;

/** Makes and ends interfaces. Calls for one pod come one after the other, in the order they were asked for. */
export class Interfaces implements NriHandler {
  readonly #options: InterfacesOptions;
  readonly #locks = new KeyedMutex();
  readonly #dels: PendingDels;
  /** Sandboxes that started without the driver, by the UID of their pod. */
  readonly #missed = new Map<string, PodSandbox>();
  readonly #adds: WorkQueue;
  #sequence: number;

  constructor(options: InterfacesOptions) {
    this.#options = options;
    this.#sequence = Math.max(0, ...options.records.list().map(({ sequence }) => sequence));
    this.#dels = new PendingDels(options, this.#locks);
    this.#adds = new WorkQueue({
      work: (podUid) => this.#addMissed(podUid),
      backoffMs: ADD_BACKOFF,
      onFailure: (podUid, error) => this.#log(this.#ofPod(podUid)[0], error),
      workers: ADD_WORKERS,
      clock: options.clock,
    });
  }

  /** DELs that have failed. */
  get dels(): Pick<PendingDels, "failing" | "giveUp"> {
    return this.#dels;
  }

  /** Goes on with what the process before this one had not finished, and tries DELs again, until the signal fires. */
  async run(signal: AbortSignal): Promise<void> {
    const { records, places, report } = this.#options;
    for (const record of records.list()) {
      showReadiness(record, places);
      if (record.attachments.some(({ state }) => state === "added")) report(record);
    }
    await Promise.all([this.#dels.run(signal), this.#adds.run(signal)]);
  }

  /** The place of the next claim in the order of ADDs. kubelet asks for all claims of a pod at once, in its order. */
  takeSequence(): number {
    this.#sequence += 1;
    return this.#sequence;
  }

  /**
   * Records the interfaces of a claim, so that they are made when its pod's sandbox starts. Repeated, it changes nothing.
   * Those of a pod before this one, whose Unprepare kubelet left out, end first.
   * @throws Failure `invalid-claim` where another claim of the pod has the same interface name, `record-unwritable`, that of
   *   a DEL for the pod before
   */
  async prepare(
    plans: readonly InterfacePlan[],
    sequence = this.takeSequence(),
  ): Promise<readonly InterfaceRecord[]> {
    const { records } = this.#options;
    const [first] = plans;
    if (first === undefined) return [];
    const { claim, pod } = first;
    if (records.list().some((one) => one.claim.uid === claim.uid && one.pod.uid !== pod.uid))
      await this.unprepare(claim.uid);
    return this.#locked(pod.uid, `Prepare for pod ${pod.namespace}/${pod.name}`, async () => {
      for (const plan of plans) {
        const other = this.#ofPod(pod.uid).find(
          ({ ifName, claim }) => ifName === plan.ifName && claim.uid !== plan.claim.uid,
        );
        if (other === undefined) continue;
        throw refuseIn(plan.claim, plan)(
          `claim ${other.claim.name} of the same pod has ifName ${plan.ifName} too`,
          "rename one",
        );
      }
      const prepared: InterfaceRecord[] = [];
      for (const plan of plans) {
        const found = records.get(interfaceKey(plan));
        const record = { sequence, attachments: [], ...found, ...plan, released: false };
        await records.put(record);
        prepared.push(record);
      }
      return prepared;
    });
  }

  /**
   * Ends the interfaces of a claim.
   * @throws Failure of a DEL, which is tried again, until it has succeeded or was given up
   */
  async unprepare(claimUid: string): Promise<void> {
    const { records, clock } = this.#options;
    const own = records.list().filter(({ claim }) => claim.uid === claimUid);
    for (const record of own) {
      const key = interfaceKey(record);
      await this.#locked(record.pod.uid, "Unprepare", async () => {
        const now = records.get(key);
        if (now === undefined || now.released) return;
        const attachments = now.attachments.map((one) => ending(one, clock.now()));
        await saveInterface({ ...now, released: true, attachments }, this.#options);
        this.#dels.add(key);
      });
      // kubelet calls often; the queue tries again at its own pace.
      if (this.#dels.failureOf(key) === undefined) this.#dels.add(key);
    }
    for (const key of own.map(interfaceKey)) {
      await this.#dels.whenTried(key);
      if (records.get(key) === undefined) continue;
      throw (
        this.#dels.failureOf(key) ??
        new Failure({ code: "busy", what: "the driver stops", fix: "kubelet calls again when it is back" })
      );
    }
  }

  /** NRI. @throws Failure of the first ADD that failed, after a DEL of all of the sandbox */
  async runPodSandbox(pod: PodSandbox): Promise<void> {
    if (this.#ofPod(pod.uid).length === 0) return;
    if (this.#missed.get(pod.uid)?.id !== pod.id) this.#missed.delete(pod.uid);
    await this.#locked(pod.uid, `RunPodSandbox of pod ${pod.namespace}/${pod.name}`, async () => {
      for (const record of this.#ofPod(pod.uid))
        await this.#end(record, (one) => one.sandbox !== pod.id && !isEnding(one));
      try {
        for (const record of this.#ofPod(pod.uid)) await attachInterface(record, pod, this.#options);
      } catch (error) {
        for (const record of this.#ofPod(pod.uid).toReversed())
          await this.#end(record, ({ sandbox }) => sandbox === pod.id, toFailure(error));
        throw error;
      }
    });
  }

  /** NRI. The same: what takes longer than a runtime waits for a sandbox, or was left out, is there before its containers. */
  async createContainer(pod: PodSandbox): Promise<void> {
    await this.runPodSandbox(pod);
  }

  /** NRI. A DEL that fails is tried again. */
  async stopPodSandbox(pod: PodSandbox): Promise<void> {
    if (this.#ofPod(pod.uid).length === 0) return;
    if (this.#missed.get(pod.uid)?.id === pod.id) this.#missed.delete(pod.uid);
    await this.#locked(pod.uid, `StopPodSandbox of pod ${pod.namespace}/${pod.name}`, async () => {
      for (const record of this.#ofPod(pod.uid).toReversed())
        await this.#end(record, ({ sandbox }) => sandbox === pod.id);
    });
  }

  /** NRI. The same, for a runtime that did not stop it before. */
  async removePodSandbox(pod: PodSandbox): Promise<void> {
    await this.stopPodSandbox(pod);
  }

  /**
   * NRI: ends what sandboxes had that are gone, and makes what was left out while there was no connection. A sandbox that
   * is missing while its namespace is there may be about to be listed.
   */
  async synchronize(pods: readonly PodSandbox[]): Promise<void> {
    const { records, hasNetns, clock } = this.#options;
    const listed = new Set(pods.map(({ id }) => id));
    this.#missed.clear();
    for (const record of records.list()) {
      const gone: string[] = [];
      for (const { sandbox, netns, since } of record.attachments) {
        const isStarting = !listed.has(sandbox) && clock.now() - since < STARTING_MS;
        const isThere = await hasNetns(netns);
        if (!isThere || !(listed.has(sandbox) || isStarting)) gone.push(sandbox);
      }
      if (gone.length > 0)
        void this.#later(record.pod.uid, () => this.#end(record, ({ sandbox }) => gone.includes(sandbox)));
    }
    for (const [uid, sandboxes] of Map.groupBy(pods, (pod) => pod.uid)) {
      const own = this.#ofPod(uid);
      if (own.length === 0) continue;
      const there = await Promise.all(
        sandboxes.map(async (pod) => (pod.netns !== undefined && (await hasNetns(pod.netns)) ? [pod] : [])),
      );
      // Of two that live it is not known which one is the newer.
      const [pod, ...others] = there.flat();
      if (pod === undefined || others.length > 0) continue;
      if (own.every(({ attachments }) => attachments.some((one) => isAdded(one, pod)))) continue;
      this.#missed.set(uid, pod);
      this.#adds.add(uid);
    }
  }

  /** CHECK of interfaces that are there, those of a pod one after the other. */
  async check(isWanted: (record: InterfaceRecord) => boolean): Promise<readonly CheckedInterface[]> {
    const { records, delegate } = this.#options;
    return Promise.all(
      records.list().flatMap((asked) => {
        if (asked.released || !isWanted(asked)) return [];
        const work = () => checkInterface(records.get(interfaceKey(asked)) ?? asked, delegate);
        return [this.#locked(asked.pod.uid, "CHECK", work)];
      }),
    );
  }

  async #addMissed(podUid: string): Promise<void> {
    const pod = this.#missed.get(podUid);
    if (pod?.netns === undefined) return;
    const isThere = await this.#options.hasNetns(pod.netns);
    // It may have ended meanwhile, or another one may be listed.
    if (this.#missed.get(podUid) !== pod) return;
    if (isThere) await this.runPodSandbox(pod);
    if (this.#missed.get(podUid) === pod) this.#missed.delete(podUid);
  }

  #later(podUid: string, work: () => Promise<void>): Promise<void> {
    return this.#locked(podUid, "synchronization", work).catch((error: unknown) =>
      this.#log(undefined, error),
    );
  }

  /** DEL of what some sandboxes have of an interface; one that fails is tried again. */
  async #end(
    stale: InterfaceRecord,
    isWanted: (one: Attachment) => boolean,
    problem?: Failure,
  ): Promise<void> {
    const { records, report, clock } = this.#options;
    const record = records.get(interfaceKey(stale));
    if (record === undefined || !record.attachments.some(isWanted)) {
      if (record !== undefined && problem !== undefined) report(record, problem);
      return;
    }
    const attachments = record.attachments.map((one) => (isWanted(one) ? ending(one, clock.now()) : one));
    const now = { ...record, attachments };
    await saveInterface(now, this.#options);
    if (!attachments.some(({ state }) => state === "added")) report(now, problem);
    await delEnding(now, this.#options).then(
      () => this.#dels.ended(now),
      (error: unknown) => this.#dels.failed(now, error),
    );
  }

  #log(record: InterfaceRecord | undefined, error: unknown): void {
    this.#options.logger.warn(
      { ...(record && fieldsOf(record)), err: error },
      "an interface of a claim failed",
    );
  }

  /** Those that the pod is to have, in the order of its claims. */
  #ofPod(uid: string): readonly InterfaceRecord[] {
    return this.#options.records
      .list()
      .filter(({ pod, released }) => pod.uid === uid && !released)
      .sort((one, other) => one.sequence - other.sequence);
  }

  #locked<Value>(podUid: string, what: string, work: () => Promise<Value>): Promise<Value> {
    return this.#locks.run({ key: podUid, what }, work);
  }
}

function isAdded({ sandbox, state }: Attachment, { id }: PodSandbox): boolean {
  return sandbox === id && state === "added";
}
