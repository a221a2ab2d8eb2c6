import type { Habits } from "../simulated-api.ts";
import { HEALTHY } from "../simulated-api.ts";
import type { DelTiming, IpamCluster, Pod } from "./ipam-cluster.ts";
import type { IpamNode } from "./ipam-node.ts";
import { NETWORKS, poolSubnets } from "./networks.ts";

/** One thing that happens, and how long nothing else does. */
export interface Command {
  readonly kind: keyof typeof COMMANDS;
  /** Which node. */
  readonly node: number;
  /** What else there is to choose. */
  readonly value: number;
  readonly waitMs: number;
}

/** What a command works on. */
interface Target {
  readonly cluster: IpamCluster;
  readonly node: IpamNode;
  readonly value: number;
  /** A pod of the node; undefined where it has none. */
  readonly pod: Pod | undefined;
}

type Act = (target: Target) => void;

const DELS: readonly DelTiming[] = ["on time", "late", "delayed", "lost", "twice"];
const HABITS: readonly Partial<Habits>[] = [
  {},
  { lost: 30 },
  { answerLost: 30 },
  { refused: 30 },
  { failedAfterwards: 30 },
  { slow: 30 },
  { watchLagMs: 120_000 },
  { watchCut: 30, repeated: 30 },
  { ...{ lost: 5, answerLost: 5, refused: 5, failedAfterwards: 5, slow: 5 }, watchLagMs: 5_000, watchCut: 5 },
];

const at = <Item>(items: readonly Item[], index: number): Item => items[index % items.length] as Item;

/** Everything that happens to a cluster, with how often. */
export const COMMANDS = {
  startPod: [
    30,
    ({ cluster, node, value }) =>
      cluster.startPod(
        node,
        `p${value}`,
        at([...Object.keys(NETWORKS), "blue", "blue"], value * 7 + node.sandboxes.size),
      ),
  ],
  endPod: [14, ({ cluster, pod, value }) => pod && cluster.endPod(pod, at(DELS, value))],
  replaceSandbox: [
    8,
    ({ cluster, pod, value }) => {
      if (pod?.sandbox === undefined) return;
      cluster.endSandbox(pod, at(DELS, value));
      cluster.simulation.after(cluster.simulation.between(1, 50), () => void cluster.startSandbox(pod));
    },
  ],
  removePod: [
    2,
    ({ cluster, pod }) => {
      if (pod === undefined || pod.sandbox?.isForgotten === true) return;
      pod.isWanted = false;
      cluster.removePod(pod);
    },
  ],
  endRemoved: [
    2,
    ({ cluster, node, value }) => {
      for (const pod of cluster.pods)
        if (pod.node === node && !pod.isWanted) cluster.endPod(pod, at(DELS, value));
    },
  ],
  repeatAdd: [
    3,
    ({ cluster, node, pod }) => {
      const { sandbox } = pod ?? {};
      if (sandbox?.addresses === undefined || sandbox.isForgotten) return;
      void node.call("ADD", sandbox, 1).then((answer) => {
        if (answer?.exitCode !== 0 || sandbox.isOver || sandbox.isForgotten) return;
        for (const address of sandbox.addresses ?? [])
          if (!answer.stdout.includes(`"${address}/`))
            cluster.invariants.broken("I5", `ADD again: ${answer.stdout} instead of ${sandbox.addresses}`);
      });
    },
  ],
  check: [
    2,
    ({ cluster, node, pod }) => {
      const { sandbox } = pod ?? {};
      if (sandbox?.addresses === undefined || sandbox.isForgotten) return;
      void node.call("CHECK", sandbox, 1).then((answer) => {
        if (answer?.exitCode === 1 && !sandbox.isOver && !sandbox.isForgotten)
          cluster.invariants.broken("CHECK", answer.stdout);
      });
    },
  ],
  gc: [
    3,
    ({ node, value }) => {
      const network = at(Object.keys(NETWORKS), value);
      const keep = [...node.sandboxes].filter((sandbox) => sandbox.network === network);
      const none = { containerId: "", interfaceName: "", netns: "", network };
      void node.call("GC", none, at([1, 1, 400, 8_000], value), keep);
    },
  ],
  status: [
    1,
    ({ node, value }) => {
      const network = at(Object.keys(NETWORKS), value);
      void node.call("STATUS", { containerId: "", interfaceName: "", netns: "", network }, 1);
    },
  ],
  killAgent: [5, ({ node, value }) => node.killAgent(at([100, 5_000, 90_000], value))],
  killAgentSoon: [8, ({ node, value }) => node.killAgentAfter(1 + value)],
  stopAgent: [2, ({ node }) => node.stopAgent()],
  pauseAgent: [2, ({ node, value }) => node.program?.pause(at([3_000, 20_000, 150_000], value))],
  reboot: [
    3,
    ({ cluster, node, value }) => {
      if (!node.machine.isOn) return cluster.powerOn(node);
      cluster.powerOff(node);
      cluster.simulation.after(at([2_000, 60_000, 500_000], value), () => {
        if (!node.machine.isOn) cluster.powerOn(node);
      });
    },
  ],
  powerOff: [2, ({ cluster, node }) => cluster.powerOff(node)],
  powerOn: [
    3,
    ({ cluster, node }) => {
      if (!node.machine.isOn) cluster.powerOn(node);
    },
  ],
  newDisk: [
    1,
    ({ node }) => {
      if (!node.machine.isOn) node.replaceDisk();
    },
  ],
  wipeState: [1, ({ node }) => node.wipeState()],
  deleteNode: [3, ({ cluster, node }) => cluster.deleteNode(node)],
  outOfService: [
    2,
    ({ cluster, node, value }) => {
      if (node.machine.isOn) return;
      cluster.taint(node, true);
      cluster.simulation.after(at([1_000, 50_000], value), () => cluster.collectPodsOf(node));
    },
  ],
  notReady: [
    1,
    ({ cluster, node }) => {
      const { store } = cluster.server;
      const status = { conditions: [{ type: "Ready", status: "Unknown" }] };
      if (store.find("nodes", node.name)) store.merge("nodes", node.name, { status });
    },
  ],
  partition: [
    3,
    ({ node }) => {
      node.habits.isPartitioned = true;
    },
  ],
  heal: [6, ({ cluster, node }) => cluster.heal(node)],
  apiDown: [
    2,
    ({ cluster }) => {
      cluster.server.isUp = false;
    },
  ],
  apiUp: [
    5,
    ({ cluster }) => {
      cluster.server.isUp = true;
    },
  ],
  habits: [
    5,
    ({ node, value }) => {
      const { isPartitioned } = node.habits;
      Object.assign(node.habits, HEALTHY, at(HABITS, value), { isPartitioned });
    },
  ],
  controllerHabits: [
    2,
    ({ cluster, value }) => {
      for (const { habits } of cluster.controllers) Object.assign(habits, HEALTHY, at(HABITS, value));
    },
  ],
  startController: [4, ({ cluster, value }) => at(cluster.controllers, value).start()],
  killController: [2, ({ cluster, value }) => at(cluster.controllers, value).kill()],
  killControllerSoon: [
    2,
    ({ cluster, value }) => at(cluster.controllers, value).program?.killAfter(1 + value),
  ],
  compact: [2, ({ cluster }) => cluster.server.compact()],
  resizePool: [
    2,
    ({ cluster, value }) => {
      cluster.server.store.merge("addresspools", "blue", { spec: { subnets: poolSubnets(value % 4) } });
    },
  ],
  clockRate: [
    2,
    ({ node, value }) => {
      node.machine.rate = at([1, 2, 0.5], value);
    },
  ],
  controllerClock: [
    1,
    ({ cluster, value }) => {
      for (const { machine } of cluster.controllers) machine.rate = at([1, 2, 0.5], value);
    },
  ],
  clockStep: [2, ({ node, value }) => node.machine.step(at([-3_600_000, 3_600_000], value))],
  diskFails: [
    2,
    ({ node, value }) => {
      node.machine.disk.failure = at(["ENOSPC", "EROFS", "EIO"] as const, value);
    },
  ],
  diskWorks: [
    4,
    ({ node }) => {
      node.machine.disk.failure = undefined;
    },
  ],
  netnsUnknown: [
    1,
    ({ node, value }) => {
      node.isNetnsUnknown = value % 2 === 0;
    },
  ],
  nothing: [6, () => undefined],
} as const satisfies Readonly<Record<string, readonly [weight: number, act: Act]>>;

/** How long to wait, with how often. */
export const WAITS = [
  [0, 6],
  [3, 8],
  [300, 8],
  [5_000, 8],
  [35_000, 4],
  [70_000, 3],
  [320_000, 1],
] as const;

/** Does what a command says, lets time pass, and checks what must always be so. */
export async function step(
  cluster: IpamCluster,
  { kind, node: index, value, waitMs }: Command,
): Promise<void> {
  const node = at(cluster.nodes, index);
  const pods = [...cluster.pods].filter((pod) => pod.node === node);
  const pod = pods.length === 0 ? undefined : at(pods, value);
  cluster.note(`> ${kind} ${node.name} ${value}, ${waitMs} ms`);
  const [, act] = COMMANDS[kind] as readonly [number, Act];
  act({ cluster, node, value, pod });
  await cluster.simulation.advance(waitMs);
  cluster.invariants.check();
}
