import type { Aim, Measurement } from "../measurement.ts";
import { atMost } from "../measurement.ts";
import { type PodsStart, SimulatedCluster } from "../simulated-cluster.ts";
import { storedBytes } from "../stored-size.ts";

/** A large cluster, and how many pods of it start in the same moment. */
const NODES = 1000;
const ADDRESSES = 100_000;
const AT_ONCE = 10_000;
/** What a loaded etcd does on a disk whose sync takes 2 ms. */
const WRITES_PER_SECOND = 500;
/** The agents write how many addresses are used, and give back what they took for the burst. */
const AFTERWARDS_MS = 11 * 60_000;

/** What the simulations share. */
export interface SimulationRig {
  readonly isTrial: boolean;
  /** What the simulations have shown so far, by figure. */
  readonly shown: Map<string, number>;
}

/** 1,000 pods on 10 nodes: what is written for an address. */
export const writesForAnAddress: readonly Measurement<SimulationRig>[] = [
  ...writesWith(28, 16, atMost(1 / 10, "<= 1 for 10")),
  ...writesWith(26, 64, atMost(1 / 30, "<= 1 for 30")),
];

function writesWith(blockPrefix: number, size: number, aim: Aim): readonly Measurement<SimulationRig>[] {
  const name = `API writes for an address, 1,000 pods on 10 nodes, blocks of ${size}`;
  const later = `${name}, with the eleven minutes that follow`;
  const simulate = async ({ isTrial, shown }: SimulationRig) => {
    const pods = isTrial ? 20 : 1000;
    const cluster = await SimulatedCluster.start({
      nodes: isTrial ? 2 : 10,
      blockPrefix,
      cidr: "10.0.0.0/16",
    });
    shown.set(name, (await cluster.startPods(pods)).writes / pods);
    await cluster.rest(isTrial ? 0 : AFTERWARDS_MS);
    shown.set(later, cluster.writes.length / pods);
    cluster.close();
  };
  return [shownFigure(name, "writes", aim, simulate), shownFigure(later, "writes")];
}

const FRESH = "1,000 nodes without a block, 10,000 pods at once";
const FULL = "1,000 nodes with 90,000 addresses, 10,000 pods at once";
const SLOW = `etcd does ${WRITES_PER_SECOND} writes a second`;

/** 1,000 nodes and 100,000 addresses, in blocks of 16. */
export const largeCluster: readonly Measurement<SimulationRig>[] = [
  shownFigure(`${FRESH}: writes`, "writes", undefined, simulateUnbounded),
  shownFigure(`${FRESH}: writes in the busiest second`, "writes"),
  shownFigure(`${FRESH}: until all have addresses`, "ms"),
  shownFigure(`${FRESH}: until all have addresses, ${SLOW}`, "ms", undefined, simulateBounded),
  shownFigure(`${FULL}: writes`, "writes"),
  shownFigure(`${FULL}: until all have addresses, ${SLOW}`, "ms"),
  shownFigure("100,000 addresses: blocks in etcd", "MB"),
  shownFigure("100,000 addresses: largest object", "KiB", atMost(64, "<= 64 KB")),
];

async function simulateUnbounded({ isTrial, shown }: SimulationRig): Promise<void> {
  const cluster = await SimulatedCluster.start(sizes(isTrial));
  const { ms, writes, busiestSecond } = await cluster.startPods(sizes(isTrial).atOnce);
  cluster.close();
  shown.set(`${FRESH}: writes`, writes);
  shown.set(`${FRESH}: writes in the busiest second`, busiestSecond);
  shown.set(`${FRESH}: until all have addresses`, ms);
}

async function simulateBounded({ isTrial, shown }: SimulationRig): Promise<void> {
  const { atOnce, addresses } = sizes(isTrial);
  const cluster = await SimulatedCluster.start({ ...sizes(isTrial), writesPerSecond: WRITES_PER_SECOND });
  shown.set(`${FRESH}: until all have addresses, ${SLOW}`, (await cluster.startPods(atOnce)).ms);
  // Ten pods on each node in a minute, so that its agent takes no more blocks in advance than usual.
  const rest = () => cluster.rest(isTrial ? 0 : 61_000);
  for (let given = atOnce; given < addresses - atOnce; given += atOnce) {
    await rest();
    await cluster.startPods(atOnce);
  }
  await rest();
  const last: PodsStart = await cluster.startPods(atOnce);
  shown.set(`${FULL}: writes`, last.writes);
  shown.set(`${FULL}: until all have addresses, ${SLOW}`, last.ms);
  const bytes = cluster.objects().map(storedBytes);
  cluster.close();
  shown.set("100,000 addresses: blocks in etcd", bytes.reduce((sum, one) => sum + one, 0) / 1e6);
  shown.set("100,000 addresses: largest object", Math.max(...bytes) / 1024);
}

function sizes(isTrial: boolean) {
  const common = { blockPrefix: 28, cidr: "10.0.0.0/12" };
  return isTrial
    ? { ...common, nodes: 2, atOnce: 20, addresses: 60 }
    : { ...common, nodes: NODES, atOnce: AT_ONCE, addresses: ADDRESSES };
}

/** A figure of a simulation that is run for the first of its figures. */
function shownFigure(
  name: string,
  unit: Measurement<SimulationRig>["unit"],
  aim?: Aim,
  simulate?: (rig: SimulationRig) => Promise<void>,
): Measurement<SimulationRig> {
  return {
    ...{ name, unit, repetitions: 1, shows: "median" },
    ...(aim && { aim }),
    ...(simulate && { prepare: simulate }),
    ours: async ({ shown }) => shown.get(name) ?? Number.NaN,
  };
}
