import { setTimeout as delay } from "node:timers/promises";
import { waitUntil } from "../machine/wait-until.ts";
import { PodActions } from "./actions.ts";
import { type ChurnNode, newSandbox } from "./churn-node.ts";
import { differences } from "./compare.ts";
import { Dice } from "./dice.ts";
import { type LivingPod, VAIN_INTERFACE } from "./living-pod.ts";
import { NETWORK_VARIANTS, VAIN_NETWORK } from "./network-variants.ts";
import type { SharedSwitch } from "./shared-switch.ts";

const CONVERGE_LIMIT_MS = 60_000;
/** Times that kubelet makes a sandbox anew before the test calls it broken. */
const SANDBOXES = 40;

/**
 * One run: verbs, kills and restarts in an order that the seed decides, then peace, in which kubelet brings every pod
 * up that is not; then what the node has must become exactly what its living pods should have.
 * @throws Error with seed, steps and all differences
 */
export async function churnOnce(lane: ChurnNode, shared: SharedSwitch, seed: number): Promise<void> {
  const dice = new Dice(seed);
  const steps: string[] = [];
  try {
    const actions = new PodActions();
    for (let round = 2 + dice.below(4); round > 0; round--) {
      const atOnce = Array.from({ length: 1 + dice.below(3) }, () => actions.one(lane, dice));
      const disturbed = disturb(lane, shared, dice);
      steps.push(...(await settledAll([...atOnce, disturbed])));
    }
    if (dice.percent(20)) {
      await lane.collect(dice.pick(NETWORK_VARIANTS));
      steps.push("GC");
    }
    await bringUp(lane);
    await agree(lane, shared);
    await checkAll(lane, shared);
    if (dice.percent(30) && (await addInVain(lane))) {
      steps.push("ADD in vain");
      await agree(lane, shared);
    }
    await endAll(lane, dice);
  } catch (error) {
    const log = `daemon's log: ${lane.node.daemonLog}`;
    throw new Error(`seed ${seed}, steps: ${steps.join(", ")}; ${log}`, { cause: error });
  }
}

/** All of them, even if one fails: nothing may go on in the background of the next step. */
async function settledAll(works: readonly Promise<string>[]): Promise<string[]> {
  const results = await Promise.allSettled(works);
  for (const result of results) if (result.status === "rejected") throw result.reason;
  return results.map((result) => (result.status === "fulfilled" ? result.value : ""));
}

async function disturb(lane: ChurnNode, shared: SharedSwitch, dice: Dice): Promise<string> {
  const fate = dice.below(100);
  const pause = dice.below(60);
  if (fate < 22) {
    await delay(pause);
    await lane.node.killDaemon();
    if (dice.percent(30)) await delay(300);
    await lane.node.startDaemon();
    return "daemon killed";
  }
  if (fate < 27) {
    await delay(pause);
    await lane.node.stopDaemon();
    await lane.node.startDaemon();
    return "daemon replaced";
  }
  if (fate < 31) {
    await delay(pause);
    await lane.restartKubelet(dice.below(200));
    return "kubelet restarted";
  }
  if (fate < 34) {
    await delay(pause);
    return (await shared.restartDatabase()) ? "database restarted" : "peace";
  }
  if (fate < 35) {
    await shared.restartSwitch();
    return "switch restarted";
  }
  if (fate < 45) {
    await shared.meddle(lane.node.name, dice);
    return "somebody meddled with a port";
  }
  return "peace";
}

/** As kubelet does: every pod whose sandbox lacks an interface gets a new sandbox, until it has all. */
async function bringUp(lane: ChurnNode): Promise<void> {
  await lane.node.untilHealthy();
  for (const pod of lane.pods) {
    for (let attempt = 1; !isWhole(pod); attempt++) {
      const answers: string[] = [];
      for (const wanted of pod.interfaces) await lane.del(pod, pod.sandbox, wanted);
      pod.sandbox = newSandbox();
      for (const wanted of pod.interfaces) {
        answers.push((await lane.add(pod, pod.sandbox, wanted)).stdout);
      }
      if (attempt === SANDBOXES) throw new Error(`pod ${pod.name} cannot be attached: ${answers.join()}`);
      if (!isWhole(pod)) await delay(100);
    }
  }
}

function isWhole({ interfaces, sandbox }: LivingPod): boolean {
  return interfaces.every(({ name }) => sandbox.attached.has(name));
}

async function agree(lane: ChurnNode, shared: SharedSwitch): Promise<void> {
  let left: readonly string[] = [];
  await waitUntil(
    async () => {
      await lane.visit();
      left = await differences(lane, await shared.view());
      return left.length === 0;
    },
    {
      what: "what there is is what should be",
      limitMs: CONVERGE_LIMIT_MS,
      everyMs: 100,
      detail: () => left.join("; "),
    },
  );
}

/** An ADD that fails in peace, without the DEL that should follow: nobody but the daemon cleans up, and the pod lives on. */
async function addInVain(lane: ChurnNode): Promise<boolean> {
  const [pod] = lane.pods;
  const [first] = pod?.interfaces ?? [];
  if (pod === undefined || first === undefined) return false;
  const wanted = { name: VAIN_INTERFACE, device: first.device, network: VAIN_NETWORK };
  const { exitCode, stdout } = await lane.add(pod, pod.sandbox, wanted);
  if (exitCode !== 1) throw new Error(`an ADD that cannot succeed ended with ${exitCode}: ${stdout}`);
  await lane.dropDeviceInfo(pod.sandbox, wanted);
  return true;
}

/** So that a run depends on its seed and not on the runs before it; half of the pods end without DEL. */
async function endAll(lane: ChurnNode, dice: Dice): Promise<void> {
  for (const pod of [...lane.pods]) {
    const interfaces = dice.percent(50) ? pod.interfaces : [];
    for (const wanted of interfaces) await lane.del(pod, pod.sandbox, wanted);
    lane.forget(pod);
  }
}

/** In peace CHECK finds nothing, unless the switch has just restarted for another node's run. */
async function checkAll(lane: ChurnNode, shared: SharedSwitch): Promise<void> {
  for (const pod of lane.pods) {
    for (const wanted of pod.interfaces) {
      await waitUntil(
        async () => {
          const { exitCode, stdout } = await lane.check(pod, wanted);
          if (exitCode === 0) return true;
          if (!stdout.includes('"code":11,') && !shared.isRecovering)
            throw new Error(`CHECK of ${pod.name} ${wanted.name}: ${stdout}`);
          return false;
        },
        { what: `CHECK of ${pod.name} ${wanted.name} is answered`, limitMs: CONVERGE_LIMIT_MS, everyMs: 100 },
      );
    }
  }
}
