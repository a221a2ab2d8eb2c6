import { isDeepStrictEqual } from "node:util";
import { type CallOddities, type ChurnNode, newSandbox } from "./churn-node.ts";
import type { CniOutcome } from "./cni-process.ts";
import type { Dice } from "./dice.ts";
import type { LivingPod, PodInterface } from "./living-pod.ts";
import { NETWORK_VARIANTS } from "./network-variants.ts";

/** ADD takes some 30 ms: kills hit before, within and after each of its steps. */
const KILL_WITHIN_MS = 60;
const MOST_PODS = 4;

/**
 * What a runtime does to one pod, unusual things included. A failed verb throws nothing, as kubelet retries with a new
 * sandbox; only what must not happen throws.
 */
export class PodActions {
  readonly #busy = new Set<LivingPod>();

  /** One action at random; on no pod that another one is working on. */
  async one(lane: ChurnNode, dice: Dice): Promise<string> {
    const pod = this.#idlePod(lane, dice);
    const wantNew = lane.pods.length < MOST_PODS && (pod === undefined || dice.percent(35));
    if (wantNew || pod === undefined) {
      await start(lane, dice, (started) => this.#busy.add(started)).then((started) => {
        if (started !== undefined) this.#busy.delete(started);
      });
      return "start a pod";
    }
    this.#busy.add(pod);
    try {
      const [name, action] = dice.pick(ACTIONS);
      await action(lane, pod, dice);
      return name;
    } finally {
      this.#busy.delete(pod);
    }
  }

  #idlePod(lane: ChurnNode, dice: Dice): LivingPod | undefined {
    const [first, ...others] = lane.pods.filter((pod) => !this.#busy.has(pod));
    return first && dice.pick([first, ...others]);
  }
}

async function start(
  lane: ChurnNode,
  dice: Dice,
  onAdmitted: (pod: LivingPod) => void,
): Promise<LivingPod | undefined> {
  const networks = dice.percent(25)
    ? [dice.pick(NETWORK_VARIANTS), dice.pick(NETWORK_VARIANTS)]
    : [dice.pick(NETWORK_VARIANTS)];
  const pod = await lane.admit(networks);
  if (pod === undefined) return undefined;
  onAdmitted(pod);
  for (const wanted of pod.interfaces) await tryAdd(lane, pod, wanted, dice);
  return pod;
}

type Action = (lane: ChurnNode, pod: LivingPod, dice: Dice) => Promise<void>;

const ACTIONS: readonly [readonly [string, Action], ...(readonly [string, Action])[]] = [
  ["new sandbox", async (lane, pod, dice) => await replaceSandbox(lane, pod, dice)],
  ["new sandbox", async (lane, pod, dice) => await replaceSandbox(lane, pod, dice)],
  ["ADD twice at once", addTwice],
  ["ADD again", addAgain],
  ["DEL thrice", delThrice],
  ["DEL without a configuration", delBare],
  ["end with DEL", endWithDel],
  ["end with DEL after the pod is gone", endThenDel],
  ["end without DEL", async (lane, pod) => lane.forget(pod)],
  ["DEL of what never was", delUnknown],
];

/** An ADD that may be killed or stopped for a while; after a failure DEL comes, as from Multus, or never. */
async function tryAdd(lane: ChurnNode, pod: LivingPod, wanted: PodInterface, dice: Dice): Promise<void> {
  const { sandbox } = pod;
  const outcome = await lane.add(pod, sandbox, wanted, oddity(dice));
  if (outcome.exitCode === 0) return;
  if (dice.percent(70)) await mustDel(lane, pod, wanted);
  else await lane.dropDeviceInfo(sandbox, wanted);
}

function oddity(dice: Dice): CallOddities {
  const afterMs = dice.below(KILL_WITHIN_MS);
  if (dice.percent(20)) return { killAfterMs: afterMs };
  return dice.percent(10) ? { freeze: { afterMs, forMs: dice.below(1_000) } } : {};
}

/** Kubelet replaces a sandbox that died: the old one's DEL comes before, after or never. */
async function replaceSandbox(lane: ChurnNode, pod: LivingPod, dice: Dice): Promise<void> {
  const old = pod.sandbox;
  const fate = dice.pick(["before", "after", "never"]);
  if (fate === "before") for (const wanted of pod.interfaces) await mustDel(lane, pod, wanted);
  pod.sandbox = newSandbox();
  for (const wanted of pod.interfaces) await tryAdd(lane, pod, wanted, dice);
  for (const wanted of pod.interfaces) {
    if (fate === "after") succeed("late DEL", await lane.del(pod, old, wanted));
    else await lane.dropDeviceInfo(old, wanted);
  }
}

/** A runtime must not, but some do. Both may succeed, or one may have to retry. */
async function addTwice(lane: ChurnNode, pod: LivingPod): Promise<void> {
  const [wanted] = pod.interfaces;
  if (wanted === undefined) return;
  const outcomes = await Promise.all([1, 2].map(() => lane.add(pod, pod.sandbox, wanted)));
  const results = outcomes.filter(({ exitCode }) => exitCode === 0).map(({ stdout }) => stdout);
  if (new Set(results).size > 1) throw new Error(`two ADDs gave two results: ${results.join(" and ")}`);
}

async function addAgain(lane: ChurnNode, pod: LivingPod): Promise<void> {
  for (const wanted of pod.interfaces) {
    const before = pod.sandbox.attached.get(wanted.name);
    const outcome = await lane.add(pod, pod.sandbox, wanted);
    const after = pod.sandbox.attached.get(wanted.name);
    if (before !== undefined && outcome.exitCode === 0 && !isDeepStrictEqual(before, after)) {
      throw new Error(`a repeated ADD gave ${JSON.stringify(after)}, before ${JSON.stringify(before)}`);
    }
  }
}

async function delThrice(lane: ChurnNode, pod: LivingPod): Promise<void> {
  for (const wanted of pod.interfaces) {
    for (let time = 1; time <= 3; time++) await mustDel(lane, pod, wanted);
  }
}

async function delBare(lane: ChurnNode, pod: LivingPod, dice: Dice): Promise<void> {
  for (const wanted of pod.interfaces) {
    const stdin = dice.pick(["", "{", "{}", '{"cniVersion":"1.1.0","name":"x"}']);
    succeed(
      "DEL without a configuration",
      await lane.del(pod, pod.sandbox, wanted, { stdin, withoutNetns: true }),
    );
  }
}

async function endWithDel(lane: ChurnNode, pod: LivingPod): Promise<void> {
  for (const wanted of [...pod.interfaces].reverse()) await mustDel(lane, pod, wanted);
  lane.forget(pod);
}

async function endThenDel(lane: ChurnNode, pod: LivingPod): Promise<void> {
  lane.forget(pod);
  for (const wanted of [...pod.interfaces].reverse()) await mustDel(lane, pod, wanted);
}

async function delUnknown(lane: ChurnNode, pod: LivingPod): Promise<void> {
  for (const wanted of pod.interfaces) {
    succeed("DEL of what never was", await lane.del(pod, newSandbox(), wanted));
  }
}

async function mustDel(lane: ChurnNode, pod: LivingPod, wanted: PodInterface): Promise<void> {
  succeed("DEL", await lane.del(pod, pod.sandbox, wanted));
}

function succeed(what: string, { exitCode, stdout }: CniOutcome): void {
  if (exitCode !== 0 || stdout !== "") throw new Error(`${what} ended with ${exitCode}: ${stdout}`);
}
