import type { Check } from "./checks.ts";

/** Loops that must give a sign of life now and then; one that does not is dead, and only a restart helps. */
export class Heartbeats {
  readonly #elapsedMs: () => number;
  readonly #checks: Check[] = [];

  /** @param elapsedMs a time that never steps, unlike the clock's; a step must not look like a dead loop */
  constructor(elapsedMs: () => number = () => performance.now()) {
    this.#elapsedMs = elapsedMs;
  }

  /**
   * Expects a sign of life of `loop` from now on.
   * @param maxSilenceMs asked at every look, since it may be configured anew
   * @returns to be called at each sign of life
   */
  expect(loop: string, maxSilenceMs: () => number): () => void {
    let last = this.#elapsedMs();
    this.#checks.push({
      name: loop,
      problem: () => {
        const silentMs = this.#elapsedMs() - last;
        const allowedMs = maxSilenceMs();
        if (silentMs <= allowedMs) return undefined;
        return `gave no sign of life for ${seconds(silentMs)}, ${seconds(allowedMs)} are allowed`;
      },
    });
    return () => {
      last = this.#elapsedMs();
    };
  }

  /** One check for each loop. */
  checks(): readonly Check[] {
    return this.#checks;
  }
}

function seconds(ms: number): string {
  return `${Math.round(ms / 1000)} s`;
}
