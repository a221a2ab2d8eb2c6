import { readdirSync } from "node:fs";
import type { NodeContext } from "../attachment/node-context.ts";
import { describeThrown, systemCode } from "../failure/failure.ts";
import { type DirectoryWatch, watchDirectory } from "../files/watch-directory.ts";
import type { Logger } from "../logging/logger.ts";
import type { Clock } from "../sync/clock.ts";
import { orAborted } from "../sync/deadlines.ts";
import { fileIdentity } from "./file-identity.ts";

/** What the watch needs and whom it tells. */
export interface SwitchSocketsOptions {
  readonly context: NodeContext;
  /** A switch has made sockets anew, which nobody has moved to their pods. */
  readonly onMade: () => void;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Whoever had a socket made moves it in this time; what lies there longer a restarted switch has made. */
const SETTLED_MS = 500;
/** At most one call in this time: a pod that removes its socket again and again has it made again and again. */
const QUIET_MS = 5_000;

interface Watched {
  /** {@link fileIdentity} */
  readonly identity: string;
  readonly watch: DirectoryWatch;
}

/**
 * Sees a switch that has restarted by the sockets that it makes for attached ports. Until they are moved, a program
 * that connects finds nobody, and the next pass may be minutes away.
 */
export class SwitchSockets {
  readonly #options: SwitchSocketsOptions;
  readonly #watched = new Map<string, Watched>();
  readonly #closing = new AbortController();
  #isPausing = false;
  /** Where something happened meanwhile. What merely lies there, because it cannot be moved, is not told again. */
  readonly #changed = new Set<string>();

  constructor(options: SwitchSocketsOptions) {
    this.#options = options;
  }

  /** Watches the directories that the pools have by now; one that is not there yet is taken up by a later call. */
  async follow(): Promise<void> {
    const pools = this.#options.context.pools.all();
    const wanted = new Set(pools.flatMap(({ config }) => config.switchSockets ?? []));
    for (const [directory, { watch, identity }] of this.#watched) {
      if (wanted.has(directory) && fileIdentity(directory) === identity) continue;
      this.#watched.delete(directory);
      await watch.close();
    }
    for (const directory of wanted) {
      const identity = fileIdentity(directory);
      if (identity === undefined || this.#watched.has(directory) || this.#closing.signal.aborted) continue;
      const broken = Promise.withResolvers<void>();
      const watch = watchDirectory({
        path: directory,
        onChange: () => this.#look(directory),
        onError: (error) => {
          this.#warn(directory, error);
          broken.resolve();
        },
      });
      this.#watched.set(directory, { identity, watch });
      await orAborted(Promise.race([watch.ready, broken.promise]), this.#closing.signal);
    }
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await Promise.all([...this.#watched.values()].map(({ watch }) => watch.close()));
    this.#watched.clear();
  }

  #look(directory: string): void {
    this.#changed.add(directory);
    if (this.#isPausing) return;
    this.#isPausing = true;
    void this.#tellSoon().finally(() => {
      this.#isPausing = false;
    });
  }

  async #tellSoon(): Promise<void> {
    const { clock, onMade } = this.#options;
    const { signal } = this.#closing;
    while (this.#changed.size > 0) {
      await clock.sleep(SETTLED_MS, signal).catch(() => undefined);
      const changed = [...this.#changed];
      this.#changed.clear();
      if (signal.aborted) return;
      if (!changed.some((directory) => this.#isUnmoved(directory))) continue;
      onMade();
      await clock.sleep(QUIET_MS, signal).catch(() => undefined);
    }
  }

  #warn(directory: string, error: unknown): void {
    this.#options.logger.warn(
      { file: directory, reason: describeThrown(error) },
      "the sockets of a switch that restarts are seen at the next pass only",
    );
  }

  /** An ADD that is under way moves its socket itself. */
  #isUnmoved(directory: string): boolean {
    const { ports } = this.#options.context.records;
    const attached = new Set(
      ports.list().flatMap(({ state, portName }) => (state === "attached" ? [portName] : [])),
    );
    try {
      return readdirSync(directory).some((name) => attached.has(name));
    } catch (error) {
      if (systemCode(error) !== "ENOENT") this.#warn(directory, error);
      return false;
    }
  }
}
