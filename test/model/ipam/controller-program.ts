import { IpamController } from "../../../src/ipam-controller/controller.ts";
import { Machine, type Program } from "../machine.ts";
import { type Habits, HEALTHY, SimulatedApi } from "../simulated-api.ts";
import type { IpamCluster } from "./ipam-cluster.ts";

/** A replica of the controller, on a machine of its own; the lease is left out: two may lead at any time. */
export class ControllerProgram {
  readonly machine: Machine;
  readonly habits: Habits = { ...HEALTHY };
  program: Program | undefined;
  readonly #cluster: IpamCluster;
  readonly #name: string;

  constructor(cluster: IpamCluster, name: string) {
    this.#cluster = cluster;
    this.#name = name;
    this.machine = new Machine(name, cluster.simulation, cluster.simulation.between(-3_600_000, 3_600_000));
  }

  get isRunning(): boolean {
    return this.program?.isAlive ?? false;
  }

  start(): void {
    if (this.isRunning) return;
    const program = this.machine.run();
    this.program = program;
    const { simulation, server } = this.#cluster;
    const controller = new IpamController({
      api: new SimulatedApi(server, program, this.habits),
      ...{ clock: program.clock, logger: this.#cluster.loggerOf(this.#name), random: simulation.random },
    });
    controller.run(program.stop.signal).catch((error: unknown) => {
      if (program.isAlive) this.#cluster.invariants.broken("the controller ends", String(error));
    });
  }

  kill(): void {
    this.program?.kill();
  }
}
