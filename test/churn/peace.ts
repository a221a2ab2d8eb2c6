import { setTimeout as delay } from "node:timers/promises";
import { waitUntil } from "../machine/wait-until.ts";
import { type ChurnNode, newSandbox } from "./churn-node.ts";
import type { ClaimPods } from "./claim-pods.ts";
import { differences } from "./compare.ts";
import type { Dice } from "./dice.ts";
import type { LivingPod } from "./living-pod.ts";
import type { SharedSwitch } from "./shared-switch.ts";

/** Addresses that an IPAM plugin did not give back in three seconds are asked for again in one minute, then in two. */
const AGREE_LIMIT_MS = 200_000;
/** The product takes seconds; a machine on which guests are emulated, and others work, may take many times as long. */
const CONVERGE_LIMIT_MS = 180_000;
/** How often, and for how long, kubelet recreates a sandbox at least before the test fails. */
const SANDBOXES = 40;

/** As kubelet does: it prepares the claims of all pods, and unprepares those of pods that are over, until it succeeds. */
async function settleClaims(claims: ClaimPods): Promise<void> {
  const isLeft = () => claims.ended.length > 0 || claims.pods.some(({ devices }) => devices === undefined);
  const settle = async () => {
    for (const pod of [...claims.ended])
      if (await claims.unprepare(pod)) claims.ended.splice(claims.ended.indexOf(pod), 1);
    for (const pod of claims.pods) if (pod.devices === undefined) await claims.prepare(pod);
    return !isLeft();
  };
  const detail = () => claims.pods.map(({ claim, problem }) => `${claim.name}: ${problem}`).join();
  await waitUntil(settle, {
    ...{ what: "all claims are prepared or unprepared", limitMs: CONVERGE_LIMIT_MS, everyMs: 100, detail },
  });
}

/** As kubelet does: every pod whose sandbox lacks an interface gets a new sandbox, until it has all. */
export async function bringUp(lane: ChurnNode): Promise<void> {
  await lane.node.untilHealthy();
  if (lane.claims !== undefined) await settleClaims(lane.claims);
  for (const pod of lane.pods) {
    const end = performance.now() + CONVERGE_LIMIT_MS;
    for (let attempt = 1; !isWhole(pod); attempt++) {
      const answers: string[] = [];
      for (const wanted of pod.interfaces) await lane.del(pod, pod.sandbox, wanted);
      pod.sandbox = newSandbox();
      for (const wanted of pod.interfaces) {
        answers.push((await lane.add(pod, pod.sandbox, wanted)).stdout);
      }
      if (isWhole(pod)) break;
      const isHopeless = attempt >= SANDBOXES && performance.now() >= end;
      if (isHopeless) throw new Error(`pod ${pod.name} cannot be attached: ${answers.join()}`);
      await delay(100);
    }
  }
}

function isWhole({ interfaces, sandbox }: LivingPod): boolean {
  return interfaces.every(({ name }) => sandbox.attached.has(name));
}

/** Waits until the node has what its pods should have and nothing else. @throws Failure with all differences */
export async function agree(lane: ChurnNode, shared: SharedSwitch): Promise<void> {
  let left: readonly string[] = [];
  await waitUntil(
    async () => {
      await lane.visit();
      left = await differences(lane, await shared.view());
      return left.length === 0;
    },
    {
      what: "what there is is what should be",
      limitMs: AGREE_LIMIT_MS,
      everyMs: 250,
      detail: () => left.join("; "),
    },
  );
}

/** So that a run depends on its seed and not on the runs before it; half of the pods end without DEL. */
export async function endAll(lane: ChurnNode, dice: Dice): Promise<void> {
  for (const pod of [...(lane.claims?.pods ?? [])]) {
    if (dice.percent(50)) await lane.claims?.end(pod);
    else lane.claims?.forget(pod);
  }
  for (const pod of [...lane.pods]) {
    const interfaces = dice.percent(50) ? pod.interfaces : [];
    for (const wanted of interfaces) await lane.del(pod, pod.sandbox, wanted);
    lane.forget(pod);
  }
}

/** Without disturbances CHECK finds nothing, unless the switch has just restarted for another node's run. */
export async function checkAll(lane: ChurnNode, shared: SharedSwitch): Promise<void> {
  for (const pod of lane.pods) {
    for (const wanted of pod.interfaces) {
      await waitUntil(
        async () => {
          const { exitCode, stdout } = await lane.check(pod, wanted);
          if (exitCode === 0) return true;
          const isExcused = pod.hasHoarded === true || shared.isRecovering || stdout.includes('"code":11,');
          if (!isExcused) throw new Error(`CHECK of ${pod.name} ${wanted.name}: ${stdout}`);
          return false;
        },
        { what: `CHECK of ${pod.name} ${wanted.name} is answered`, limitMs: CONVERGE_LIMIT_MS, everyMs: 100 },
      );
    }
  }
}
