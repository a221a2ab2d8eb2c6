import { readdirSync, rmSync } from "node:fs";
import fc from "fast-check";
import { DriverNode } from "./driver-node.ts";
import { PodLife } from "./pod-life.ts";

/** One thing that happens, and how long nothing else does. */
export interface Command {
  readonly kind: keyof typeof COMMANDS;
  readonly value: number;
  readonly waitMs: number;
}

const PODS_MAX = 6;
/** A DEL that has failed is tried again after a minute at last. */
const PEACE_MS = 5 * 60_000;
const CHANCES = [0, 30, 100];

type Act = (model: Model, value: number) => void;

/** Everything that happens, with how often. */
const COMMANDS = {
  startPod: [20, (model, value) => model.startPod(value)],
  endPod: [8, (model, value) => model.withPod(value, (pod) => pod.end())],
  killSandbox: [8, (model, value) => model.withPod(value, (pod) => pod.killSandbox())],
  endContainer: [8, (model, value) => model.withPod(value, (pod) => pod.endContainer(value % 2))],
  restartKubelet: [3, (model) => model.restartKubelet()],
  killDriver: [6, ({ node }) => node.kill()],
  killDriverSoon: [16, ({ node }, value) => node.kill(value)],
  restartRuntime: [5, ({ node }) => node.restartRuntime()],
  reboot: [1, (model) => model.reboot()],
  failAdds: [4, ({ node }, value) => node.world.setChance("add", CHANCES[value % 3])],
  failDels: [4, ({ node }, value) => node.world.setChance("del", CHANCES[value % 3])],
  slowPlugins: [3, ({ node }, value) => node.world.setChance("slow", CHANCES[value % 2])],
} as const satisfies Record<string, readonly [number, Act]>;

const kinds = Object.entries(COMMANDS).flatMap(([kind, [weight]]) =>
  Array.from({ length: weight }, () => kind as keyof typeof COMMANDS),
);

const command: fc.Arbitrary<Command> = fc.record({
  kind: fc.constantFrom(...kinds),
  value: fc.nat(29),
  waitMs: fc.constantFrom(0, 1, 5, 20, 20, 100, 500, 2_000, 10_000),
});

/** A seed for what is left to chance, and commands in their order. */
export const runArbitrary: fc.Arbitrary<[seed: number, commands: Command[]]> = fc.tuple(
  fc.nat(),
  fc.array(command, { minLength: 20, maxLength: 80, size: "max" }),
);

/** A node with its pods. */
export class Model {
  readonly node: DriverNode;
  readonly pods: PodLife[] = [];
  #started = 0;

  constructor(node: DriverNode) {
    this.node = node;
    node.world.onRemoved = ({ netns, sandbox, ifName }) => {
      const pod = this.pods.find((one) => one.sandbox?.pod.id === sandbox);
      if (pod === undefined || pod.isDeleted || pod.isSandboxDead || !node.world.netns.has(netns)) return;
      if (pod.containers.some(({ isRunning, isSure }) => isRunning && isSure))
        node.world.violate(`${ifName} is removed from ${sandbox}, in which a container runs`);
    };
  }

  get living(): readonly PodLife[] {
    return this.pods.filter(({ isDeleted }) => !isDeleted);
  }

  startPod(value: number): void {
    if (this.living.length >= PODS_MAX) return;
    this.#started += 1;
    this.pods.push(new PodLife(this.node, this.#started, value));
  }

  withPod(value: number, act: (pod: PodLife) => void): void {
    const pod = this.living[value % Math.max(1, this.living.length)];
    if (pod === undefined) return;
    this.node.note(`pod ${pod.uid}`);
    act(pod);
  }

  restartKubelet(): void {
    for (const pod of this.pods) pod.forgetPrepare();
  }

  reboot(): void {
    this.node.reboot();
    for (const pod of this.pods) pod.lose();
  }
}

/** Runs commands on a node, then in peace, then without pods. @throws Error with what is broken and what happened before */
export async function runModel(
  seed: number,
  commands: readonly Command[],
  kind: "containerd" | "cri-o",
  directory: string,
  prepare: (node: DriverNode) => void = () => undefined,
): Promise<number> {
  const node = new DriverNode(seed, kind, directory);
  prepare(node);
  const { simulation, world } = node;
  const model = new Model(node);
  const require = (isSo: boolean, what: string) => {
    if (!isSo) world.violate(what);
    if (world.violation !== undefined) throw new Error([world.violation, ...node.lines].join("\n"));
  };
  try {
    void node.start();
    for (const one of commands) {
      node.note(`> ${one.kind} ${one.value}`);
      COMMANDS[one.kind][1](model, one.value);
      await simulation.advance(one.waitMs);
      require(true, "");
    }
    node.note("> peace");
    world.chances = { add: 0, del: 0, slow: 0 };
    await simulation.advance(PEACE_MS);
    for (const { uid, containers, missing } of model.living) {
      require(containers.every(({ isRunning }) => isRunning), `${uid} does not start`);
      require(missing.length === 0, `${uid} lacks ${missing}`);
    }
    const wanted = model.living.reduce((sum, { plans }) => sum + plans.length, 0);
    require(world.addresses.size ===
      wanted, `addresses of older sandboxes are left: ${[...world.addresses]}`);
    node.note("> end");
    for (const pod of model.living) pod.end();
    await simulation.advance(PEACE_MS);
    require(model.pods.every(({ isOver }) => isOver), "a pod does not end");
    require(world.addresses.size === 0, `addresses are left: ${[...world.addresses]}`);
    require(world.interfaces.size === 0, `interfaces are left: ${[...world.interfaces.keys()]}`);
    require(node.records?.list().length === 0, "records are left");
    require(readdirSync(directory).length === 0, `files are left: ${readdirSync(directory)}`);
    return world.added;
  } finally {
    rmSync(directory, { recursive: true });
  }
}
