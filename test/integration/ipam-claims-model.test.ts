import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { VMS, VmCluster } from "../model/claims/vm-cluster.ts";
import { simulateFiles } from "../model/simulated-files.ts";

let restore: () => void;
beforeAll(() => {
  restore = simulateFiles();
});
afterAll(() => restore());

type Step = readonly [what: keyof typeof STEPS, vm: number, node: number, percent: number];

/** What becomes of VMs, and what fails meanwhile. */
const STEPS = {
  start: (cluster: VmCluster, vm: string, node: number) => {
    if (!launchersOf(cluster, vm).some(({ network }) => network === "blue-net"))
      cluster.startVm(vm, nodeOf(cluster, node));
  },
  stop: (cluster: VmCluster, vm: string) => {
    for (const launcher of launchersOf(cluster, vm)) cluster.endPod(launcher);
  },
  /** The target starts beside the source. */
  migrate: (cluster: VmCluster, vm: string, node: number) => {
    if (launchersOf(cluster, vm).length === 1) cluster.startVm(vm, nodeOf(cluster, node));
  },
  /** The source ends, or with the other the target: an abort. */
  endFirst: (cluster: VmCluster, vm: string) => {
    const [first, second] = launchersOf(cluster, vm);
    if (first !== undefined && second !== undefined) cluster.endPod(first, false);
  },
  endLast: (cluster: VmCluster, vm: string) => {
    const [, second] = launchersOf(cluster, vm);
    if (second !== undefined) cluster.endPod(second);
  },
  restartSandbox: (cluster: VmCluster, vm: string) => {
    for (const launcher of launchersOf(cluster, vm)) cluster.restartSandbox(launcher);
  },
  /** LiveUpdateNADRef: the migration's target has another network, and the claim is of the former one. */
  changeNetwork: (cluster: VmCluster, vm: string, node: number) => {
    if (launchersOf(cluster, vm).length === 1) cluster.startVm(vm, nodeOf(cluster, node), "red-net");
  },
  deleteVm: (cluster: VmCluster, vm: string) => cluster.deleteVm(vm, false),
  deleteVmInForeground: (cluster: VmCluster, vm: string) => cluster.deleteVm(vm, true),
  /** Deleted and at once created again, with another uid. */
  recreate: (cluster: VmCluster, vm: string, node: number) => {
    cluster.deleteVm(vm, false);
    cluster.startVm(vm, nodeOf(cluster, node));
  },
  forceDeleteClaim: (cluster: VmCluster, vm: string) => cluster.forceDeleteClaim(vm),
  killAgent: (cluster: VmCluster, _vm: string, node: number) => cluster.killAgent(nodeOf(cluster, node)),
  crashAgent: (cluster: VmCluster, _vm: string, node: number, percent: number) => {
    const runner = nodeOf(cluster, node);
    runner.program?.killAfter(percent, () => cluster.killAgent(runner));
  },
  startController: (cluster: VmCluster, _vm: string, node: number) => {
    const controller = cluster.controllers[node];
    if (controller !== undefined) cluster.startController(controller);
  },
  killController: (cluster: VmCluster, _vm: string, node: number) =>
    cluster.controllers[node]?.program?.kill(),
  crashController: (cluster: VmCluster, _vm: string, node: number, percent: number) =>
    cluster.controllers[node]?.program?.killAfter(percent),
  /** Of an agent, or of a controller. */
  partition: (cluster: VmCluster, _vm: string, node: number, percent: number) => {
    const { habits } = (percent < 50 ? cluster.nodes : cluster.controllers)[node] ?? nodeOf(cluster, node);
    habits.isPartitioned = !habits.isPartitioned;
    if (!habits.isPartitioned) for (const watch of cluster.server.watches) watch.heal();
  },
  disturb: (cluster: VmCluster, _vm: string, node: number, percent: number) => {
    const { habits } = (percent < 50 ? cluster.nodes : cluster.controllers)[node] ?? nodeOf(cluster, node);
    const part = percent % 15;
    Object.assign(habits, {
      lost: part,
      answerLost: part,
      refused: part,
      failedAfterwards: part,
      slow: part,
      watchLagMs: part * 500,
    });
  },
  wait: (cluster: VmCluster, _vm: string, _node: number, percent: number) =>
    cluster.simulation.advance(percent * 2_000),
};

const nodeOf = (cluster: VmCluster, node: number) =>
  cluster.nodes[node] ?? (cluster.nodes[0] as VmCluster["nodes"][number]);
const launchersOf = ({ launchers }: VmCluster, vm: string) => [...launchers].filter((one) => one.vm === vm);

const step = fc.tuple(
  fc.constantFrom(...(Object.keys(STEPS) as (keyof typeof STEPS)[]), "start" as const, "wait" as const),
  ...[fc.nat(VMS.length - 1), fc.nat(1), fc.nat(99)],
);

/** @returns what was broken, with what happened */
async function live(seed: number, steps: readonly Step[]): Promise<string | undefined> {
  const cluster = new VmCluster(seed);
  for (const node of cluster.nodes) cluster.startAgent(node);
  cluster.startController(cluster.controllers[0] as VmCluster["controllers"][number]);
  try {
    await cluster.simulation.advance(5_000);
    for (const [what, vm, node, percent] of steps) {
      cluster.note(`STEP ${what} ${VMS[vm]} ${node} ${percent}`);
      await STEPS[what](cluster, VMS[vm] ?? "", node, percent);
      await cluster.simulation.advance(percent * 20);
      if (cluster.invariants.failure !== undefined) break;
    }
    if (cluster.invariants.failure === undefined) {
      for (const launcher of [...cluster.launchers])
        if (launcher.network !== "blue-net") cluster.endPod(launcher);
      await cluster.makePeace();
      cluster.invariants.atPeace();
    }
    const { failure } = cluster.invariants;
    return failure === undefined ? undefined : `${failure.message}\n${cluster.lines.slice(-80).join("\n")}`;
  } finally {
    cluster.close();
  }
}

describe("addresses of VMs", () => {
  it("stay the VM's, and no other's, whatever happens to VMs, pods, claims, agents, controllers and requests", async () => {
    const property = fc.asyncProperty(
      fc.nat(),
      fc.array(step, { maxLength: 60, size: "max" }),
      async (seed, steps) => {
        expect(await live(seed, steps)).toBeUndefined();
      },
    );
    await fc.assert(property, { seed: 1, numRuns: 60, endOnFailure: true });
  });
});
