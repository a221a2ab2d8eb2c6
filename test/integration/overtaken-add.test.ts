import { readFile } from "node:fs/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import { ChurnNode, newSandbox } from "../churn/churn-node.ts";
import { differences } from "../churn/compare.ts";
import type { NetworkVariant } from "../churn/network-variants.ts";
import { SharedSwitch } from "../churn/shared-switch.ts";
import { ClusterNode } from "../cluster/cluster-node.ts";
import { BRIDGES, startSwitch } from "../cluster/switch.ts";
import { addNetworkNamespace } from "../lab/network-namespace.ts";
import { type LabRun, openLabRun } from "../machine/lab-run.ts";
import { waitUntil } from "../machine/wait-until.ts";

const ADDRESSED: NetworkVariant = { name: "addressed", addressed: true, keys: {} };

let run: LabRun;
let node: ClusterNode;
let shared: SharedSwitch;
let lane: ChurnNode;

beforeAll(async () => {
  run = await openLabRun();
  const ovs = await startSwitch(run, 0);
  shared = new SharedSwitch(ovs, BRIDGES.a);
  node = await ClusterNode.start(run, {
    ...{ name: "n", bridge: BRIDGES.a, databaseSocket: ovs.databaseSocket },
    reclaim: { intervalSeconds: 3_600, graceSeconds: 1 },
  });
  lane = new ChurnNode(node, (await addNetworkNamespace(run, "pod")).path, 1_000);
});
afterAll(() => run?.close());

it("a killed ADD that waits for a slow kubelet longer than the next sandbox's does not take its port", async () => {
  // The daemon gives kubelet 5 s for each of these answers.
  const questions: (() => void)[] = [];
  node.kubelet.beforeAnswer = () => new Promise((answer) => questions.push(answer));
  const asked = (count: number) =>
    waitUntil(() => questions.length >= count, { what: `question ${count} to kubelet` });
  const pod = await lane.admit([ADDRESSED]);
  const [wanted] = pod?.interfaces ?? [];
  if (pod === undefined || wanted === undefined) throw new Error("kubelet refused the pod");
  // The daemon's own, which pod it was for.
  await asked(1);
  const killed = pod.sandbox.containerId;
  // It comes while the daemon asks already, and has to wait for the answer after that one.
  expect(await lane.add(pod, pod.sandbox, wanted, { killAfterMs: 1_500 })).toMatchObject({
    exitCode: undefined,
  });
  await lane.dropDeviceInfo(pod.sandbox, wanted);
  questions[0]?.();
  // That of the ADD that was killed.
  await asked(2);
  pod.sandbox = newSandbox();
  // The daemon no longer needs to ask for this one.
  expect(await lane.add(pod, pod.sandbox, wanted)).toMatchObject({ exitCode: 0 });
  expect(questions).toHaveLength(2);
  node.kubelet.beforeAnswer = undefined;
  questions[1]?.();
  const ending = new RegExp(`"verb":"ADD",.*"container":"${killed}"`);
  await waitUntil(async () => ending.test(await readFile(node.daemonLog, "utf8")), {
    what: "the killed ADD is over",
  });
  expect(await differences(lane, await shared.view())).toEqual([]);
});
