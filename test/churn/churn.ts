import { setTimeout as delay } from "node:timers/promises";
import type { ChurnNode } from "./churn-node.ts";
import { Dice } from "./dice.ts";
import { VAIN_INTERFACE } from "./living-pod.ts";
import { NETWORK_VARIANTS, VAIN_NETWORK } from "./network-variants.ts";
import { agree, bringUp, checkAll, endAll } from "./peace.ts";
import { randomActions } from "./random-action.ts";
import { settledAll } from "./settled-all.ts";
import type { SharedSwitch } from "./shared-switch.ts";

/**
 * One run: verbs, kills and restarts in an order that the seed decides, then calm, in which kubelet brings every pod
 * up that is not; then what the node has must become exactly what its living pods should have.
 * @throws Error with seed, steps and all differences
 */
export async function churnOnce(lane: ChurnNode, shared: SharedSwitch, seed: number): Promise<void> {
  const dice = new Dice(seed);
  const steps: string[] = [];
  try {
    const act = randomActions(lane);
    for (let round = 2 + dice.below(4); round > 0; round--) {
      const atOnce = Array.from({ length: 1 + dice.below(3) }, () => act(dice));
      const disturbed = disturb(lane, shared, dice);
      steps.push(...(await settledAll([...atOnce, disturbed])));
    }
    if (dice.percent(20)) {
      await lane.collect(dice.pick(NETWORK_VARIANTS));
      steps.push("GC");
    }
    lane.node.kubelet.latenessMs = 0;
    await bringUp(lane);
    await agree(lane, shared);
    await checkAll(lane, shared);
    if (dice.percent(30) && (await addInVain(lane))) {
      steps.push("ADD that must fail");
      await agree(lane, shared);
    }
    await endAll(lane, dice);
  } catch (error) {
    const log = `daemon's log: ${lane.node.daemonLog}`;
    throw new Error(`seed ${seed}, steps: ${steps.join(", ")}; ${log}`, { cause: error });
  }
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
    if (!shared.mayRestartDatabase) return "peace";
    await shared.restartDatabase();
    return "database restarted";
  }
  if (fate < 35) {
    await shared.restartSwitch();
    return "switch restarted";
  }
  if (fate < 45) {
    await shared.changePorts(lane.node.name, dice);
    return "another program changed ports";
  }
  if (fate < 57) {
    lane.node.kubelet.latenessMs = dice.below(600);
    return "kubelet is slow";
  }
  return "peace";
}

/** An ADD that fails in calm, without the DEL that should follow: only the daemon cleans up, and the pod stays. */
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
