import { randomUUID } from "node:crypto";
import type { ClaimPod, ClaimPods } from "./claim-pods.ts";
import type { Dice } from "./dice.ts";
import { NETWORK_VARIANTS } from "./network-variants.ts";

const MOST_PODS = 3;

/** What kubelet does to one pod with a claim, unusual things included. Only what must not happen throws. */
export class ClaimActions {
  readonly #busy = new Set<ClaimPod>();

  /** One action at random; on no pod that another one is working on. */
  async one(claims: ClaimPods, dice: Dice): Promise<string> {
    const [first, ...others] = claims.pods.filter((pod) => !this.#busy.has(pod));
    const isNew = first === undefined || (claims.pods.length < MOST_PODS && dice.percent(35));
    const pod = isNew
      ? await claims.admit(dice.pick(NETWORK_VARIANTS), 1 + dice.below(2))
      : dice.pick([first, ...others]);
    const [name, action] = isNew ? PREPARE : dice.pick(ACTIONS);
    this.#busy.add(pod);
    try {
      await action(claims, pod);
      return name;
    } finally {
      this.#busy.delete(pod);
    }
  }
}

type Action = readonly [string, (claims: ClaimPods, pod: ClaimPod) => Promise<unknown>];

const PREPARE: Action = ["Prepare", (claims, pod) => claims.prepare(pod)];
const ACTIONS: readonly [Action, ...Action[]] = [
  PREPARE,
  ["Prepare twice at once", (claims, pod) => Promise.all([claims.prepare(pod), claims.prepare(pod)])],
  ["Unprepare thrice", (claims, pod) => unprepare(claims, pod, 3)],
  ["Prepare and Unprepare at once", prepareAndUnprepare],
  ["Unprepare, then Prepare", unprepareAndPrepare],
  ["end with Unprepare", (claims, pod) => claims.end(pod)],
  ["end with Unprepare", (claims, pod) => claims.end(pod)],
  ["end without Unprepare", async (claims, pod) => claims.forget(pod)],
  ["Unprepare of what never was", (claims, pod) => claims.unprepare(unknown(pod))],
];

async function unprepare(claims: ClaimPods, pod: ClaimPod, times: number): Promise<void> {
  pod.devices = undefined;
  for (let time = 1; time <= times; time++) await claims.unprepare(pod);
}

async function unprepareAndPrepare(claims: ClaimPods, pod: ClaimPod): Promise<void> {
  await unprepare(claims, pod, 1);
  await claims.prepare(pod);
}

/** The driver may serve either of them last. */
async function prepareAndUnprepare(claims: ClaimPods, pod: ClaimPod): Promise<void> {
  pod.devices = undefined;
  await Promise.all([claims.prepare(pod), claims.unprepare(pod)]);
  pod.devices = undefined;
}

function unknown({ claim }: ClaimPod): Pick<ClaimPod, "claim"> {
  return { claim: { ...claim, uid: randomUUID() } };
}
