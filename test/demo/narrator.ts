/** One step of the demo with its duration. */
export interface StepTime {
  readonly name: string;
  readonly ms: number;
}

/** Prints what the demo does, a line for each finished step, and keeps the durations. */
export class Narrator {
  readonly steps: StepTime[] = [];
  readonly #print: (line: string) => void;
  readonly #start = performance.now();

  constructor(print: (line: string) => void) {
    this.#print = print;
  }

  /** A line of its own, for what is not a step. */
  say(line: string): void {
    this.#print(`  ${line}`);
  }

  /**
   * Does a step and reports it. @param name short and stable, for the figures @param work gives what to say of it
   */
  async step<Result>(name: string, work: () => Promise<{ say: string; result: Result }>): Promise<Result> {
    const begin = performance.now();
    const { say, result } = await work();
    const ms = Math.round(performance.now() - begin);
    this.steps.push({ name, ms });
    const at = ((performance.now() - this.#start) / 1000).toFixed(1).padStart(5);
    this.#print(`${at} s  ${name.padEnd(10)} ${say}  (${duration(ms)})`);
    return result;
  }
}

function duration(ms: number): string {
  return ms < 1000 ? `${ms} ms` : `${(ms / 1000).toFixed(1)} s`;
}
