import type { Clock } from "../sync/clock.ts";

/** What is waited with, and whom it is told. */
export interface PortRetriesOptions {
  /** It is time to try these ports once more. */
  readonly onDue: (ports: readonly string[]) => void;
  readonly clock: Clock;
  /** Ends it. */
  readonly signal: AbortSignal;
}

/** Before each try after the first; VPP executes its start-up file, which makes bridges, two seconds after its start. */
const PAUSES_MS = [100, 200, 400, 400, 400, 400, 400, 800, 1_600, 3_200];

/** Has ports tried again whose repair failed, those alone, until the next pass is as good as another try. */
export class PortRetries {
  readonly #options: PortRetriesOptions;
  /** Tries that failed, by port. */
  readonly #failures = new Map<string, number>();
  readonly #waiting = new Set<string>();

  constructor(options: PortRetriesOptions) {
    this.#options = options;
  }

  /** Whether no other try follows soon when the next one fails. */
  isLast(port: string): boolean {
    return this.#failuresOf(port) >= PAUSES_MS.length;
  }

  /** Ports were tried, of which some failed: these it has tried again. */
  tried(ports: Iterable<string>, failed: ReadonlySet<string>): void {
    for (const port of ports) if (!failed.has(port)) this.#failures.delete(port);
    for (const [pauseMs, together] of Map.groupBy(failed, (port) => PAUSES_MS[this.#failuresOf(port)])) {
      for (const port of together) this.#failures.set(port, this.#failuresOf(port) + 1);
      const others = together.filter((port) => !this.#waiting.has(port));
      if (pauseMs !== undefined && others.length > 0) void this.#wait(pauseMs, others);
    }
  }

  /** From here on all have as many tries as in the beginning: something is new. */
  startAnew(): void {
    this.#failures.clear();
  }

  #failuresOf(port: string): number {
    return this.#failures.get(port) ?? 0;
  }

  async #wait(pauseMs: number, ports: readonly string[]): Promise<void> {
    const { clock, signal, onDue } = this.#options;
    for (const port of ports) this.#waiting.add(port);
    await clock.sleep(pauseMs, signal).catch(() => undefined);
    for (const port of ports) this.#waiting.delete(port);
    if (!signal.aborted) onDue(ports);
  }
}
