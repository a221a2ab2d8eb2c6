import type { Clock } from "../../src/sync/clock.ts";
import { SimulatedDisk } from "./simulated-disk.ts";
import type { Act, Simulation } from "./simulation.ts";

/** A machine with a disk and clocks; programs run on it while it is on. */
export class Machine {
  readonly name: string;
  readonly simulation: Simulation;
  disk: SimulatedDisk;
  isOn = true;
  boots = 1;
  #rate = 1;
  #steppedMs: number;
  /** Where the monotonic clock was when its rate was last set. */
  #mark = { atMs: 0, monotonicMs: 1000 };
  readonly #programs = new Set<Program>();

  constructor(name: string, simulation: Simulation, steppedMs = 0) {
    this.name = name;
    this.simulation = simulation;
    this.disk = new SimulatedDisk(simulation);
    this.#steppedMs = steppedMs;
  }

  /** As the kernel's boot_id. */
  get bootId(): string {
    return `${this.name}-boot-${this.boots}`;
  }

  get monotonicMs(): number {
    const { atMs, monotonicMs } = this.#mark;
    return monotonicMs + (this.simulation.nowMs - atMs) * this.#rate;
  }

  get wallMs(): number {
    return Date.UTC(2026, 0, 1) + this.simulation.nowMs + this.#steppedMs;
  }

  /** How many of its seconds pass in a real one. */
  get rate(): number {
    return this.#rate;
  }

  set rate(rate: number) {
    this.#mark = { atMs: this.simulation.nowMs, monotonicMs: this.monotonicMs };
    this.#rate = rate;
  }

  /** Sets the wall clock ahead, or back. */
  step(ms: number): void {
    this.#steppedMs += ms;
  }

  run(): Program {
    const program = new Program(this);
    this.#programs.add(program);
    return program;
  }

  /** The power fails: programs end, and the disk loses what was not synced. */
  powerOff(): void {
    this.isOn = false;
    for (const program of this.#programs) program.kill();
    this.#programs.clear();
    this.disk.losePower();
  }

  powerOn(): void {
    this.isOn = true;
    this.boots += 1;
    this.#mark = { atMs: this.simulation.nowMs, monotonicMs: 1000 };
  }

  /** A new, empty disk, as after a reinstallation. Only while the machine is off. */
  replaceDisk(): void {
    this.disk = new SimulatedDisk(this.simulation);
  }
}

let programs = 0;

/** A running program. After it is killed nothing that it waits for ever comes, so that it ends at whatever await it is at. */
export class Program {
  readonly machine: Machine;
  /** Its own name for the machine's disk: what it asks of the disk after its end is not done. */
  readonly root: string;
  readonly clock: Clock;
  /** Fires where the program is asked to end. */
  readonly stop = new AbortController();
  #isAlive = true;
  #killAt: { events: number; readonly onKill: () => void } | undefined;
  #pausedUntilMs = 0;

  constructor(machine: Machine) {
    this.machine = machine;
    programs += 1;
    this.root = `/simulated/${programs}`;
    machine.disk.attach(this.root, this);
    this.clock = {
      now: () => machine.wallMs,
      monotonic: () => machine.monotonicMs,
      sleep: (ms, signal) => this.#sleep(ms, signal),
    };
  }

  get isAlive(): boolean {
    return this.#isAlive;
  }

  kill(): void {
    this.#isAlive = false;
    this.machine.disk.detach(this.root);
  }

  /** Kills it when so many more things that it waits for have come, as a crash at one of its next awaits. */
  killAfter(events: number, onKill: () => void = () => undefined): void {
    this.#killAt = { events, onKill };
  }

  /** Lets it do nothing for a while, as SIGSTOP or a hypervisor does. */
  pause(ms: number): void {
    this.#pausedUntilMs = Math.max(this.#pausedUntilMs, this.machine.simulation.nowMs + ms);
  }

  /** Lets the program see something in so many milliseconds, unless it has been killed by then. */
  after(ms: number, act: Act): void {
    const { simulation } = this.machine;
    simulation.after(ms, () => {
      if (!this.#isAlive) return false;
      const pauseMs = this.#pausedUntilMs - simulation.nowMs;
      if (pauseMs > 0) {
        this.after(pauseMs, act);
        return false;
      }
      if (this.#killAt === undefined || this.#killAt.events-- > 0) return act();
      this.kill();
      this.#killAt.onKill();
      return true;
    });
  }

  #sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      let isOver = false;
      const onAbort = () => {
        isOver = true;
        reject(signal?.reason);
      };
      signal?.addEventListener("abort", onAbort, { once: true });
      const { machine } = this;
      const dueMs = machine.monotonicMs + ms;
      const wake = () => {
        if (isOver) return false;
        const restMs = dueMs - machine.monotonicMs;
        // The clock runs slower than when the sleep began.
        if (restMs > 0.001) {
          this.after(restMs / machine.rate, wake);
          return false;
        }
        signal?.removeEventListener("abort", onAbort);
        resolve();
        return true;
      };
      this.after(ms / machine.rate, wake);
    });
  }
}
