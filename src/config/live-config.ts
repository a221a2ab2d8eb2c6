import { readFile } from "node:fs/promises";
import { dirname } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { describeThrown, systemCode, toFailure } from "../failure/failure.ts";
import { type DirectoryWatch, watchDirectory } from "../files/watch-directory.ts";
import type { Logger } from "../logging/logger.ts";
import type { Clock } from "../sync/clock.ts";
import { checkJoined } from "./load.ts";
import { planReload, type ReloadPlan } from "./reload.ts";
import type { DaemonConfig } from "./schema.ts";

/** What a live configuration works with. */
export interface LiveConfigOptions {
  readonly file: string;
  /** What the file said when the daemon started. */
  readonly config: DaemonConfig;
  /** Checks the text of the file. @throws Failure `invalid-config` */
  readonly parse: (text: string) => DaemonConfig;
  /**
   * Puts a configuration into effect that differs from the last one in keys that need no restart. Where it rejects,
   * it is called again with the same at the next look.
   */
  readonly apply: (config: DaemonConfig) => Promise<void>;
  /**
   * Tries out on this node what a valid configuration asks for, such as its labels, before any of it is taken. Where it
   * rejects, the old one stays, and the same is checked again at the next look: the node may be mended meanwhile.
   */
  readonly check?: (config: DaemonConfig) => Promise<void>;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Milliseconds between looks at the file that no event told of; default 30 000. */
  readonly pollMs?: number;
}

/** What the log tells of a change; nothing for one that is tried again. */
type PoolChanges = Partial<Pick<ReloadPlan, "added" | "removed" | "changed">>;

/** Milliseconds from a change to the look at it: an editor or kubelet may not be done yet. */
const SETTLE_MS = 100;

/**
 * The configuration as it is now. The file's directory is watched, because kubelet changes a mounted ConfigMap by
 * swapping the link `..data` beside it. A file that is wrong is reported, and what ran before goes on.
 */
export class LiveConfig {
  readonly #options: LiveConfigOptions;
  readonly #stop = new AbortController();
  #running: Promise<void> = Promise.resolve();
  #watch: DirectoryWatch | undefined;
  #config: DaemonConfig;
  /** Text of the file at the last look; one look for each text. */
  #text: string | undefined;
  /** Why the text is not taken though it is valid; undefined where it is taken or wrong in itself. */
  #refused: string | undefined;
  /** Whether the text was wrong in itself, or there was none. */
  #isBroken = false;
  /** Keys of which was said that they need a restart. */
  #waiting: readonly string[] = [];
  /** Why the current configuration is not in effect as a whole; undefined where it is. */
  #notApplied: string | undefined;
  #changed = Promise.withResolvers<void>();

  constructor(options: LiveConfigOptions) {
    this.#options = options;
    this.#config = options.config;
  }

  /** What the daemon runs with now. */
  get current(): DaemonConfig {
    return this.#config;
  }

  /** Whether the file is what the daemon runs with, and which of its keys wait for a restart. */
  get view(): { readonly isOk: boolean; readonly waiting: readonly string[] } {
    return { isOk: !this.#isBroken && this.#notApplied === undefined, waiting: this.#waiting };
  }

  /**
   * Puts the configuration into effect that the daemon starts with. Never rejects: what fails is logged, and tried
   * again once {@link LiveConfig.start} was called.
   */
  applyInitial(): Promise<void> {
    return this.#apply();
  }

  /**
   * Begins to look at the file, which may have changed since it was read.
   * @returns resolves when changes from now on are seen
   */
  start(): Promise<void> {
    const { file, logger } = this.#options;
    this.#watch = watchDirectory({
      path: dirname(file),
      onChange: () => this.#changed.resolve(),
      onError: (error) => logger.warn({ err: error, file }, "watching the configuration failed, polling"),
    });
    this.#running = this.#run();
    return this.#watch.ready;
  }

  async close(): Promise<void> {
    this.#stop.abort();
    this.#changed.resolve();
    await this.#running;
    await this.#watch?.close();
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    const { clock, pollMs = 30_000 } = this.#options;
    while (!signal.aborted) {
      await this.#look();
      const poll = new AbortController();
      const slept = clock.sleep(pollMs, poll.signal);
      // Closing counts as a change. Both sleeps reject for one reason only, that nobody waits for them any more.
      await Promise.race([this.#changed.promise, slept.catch(() => undefined)]);
      poll.abort();
      await clock.sleep(SETTLE_MS, signal).catch(() => undefined);
      this.#changed = Promise.withResolvers();
    }
  }

  async #look(): Promise<void> {
    const { file, parse, logger } = this.#options;
    const text = await this.#read();
    const isNew = text !== this.#text;
    this.#text = text;
    if (this.#stop.signal.aborted) return;
    try {
      if (text !== undefined && (isNew || this.#refused !== undefined)) await this.#take(parse(text));
      else if (this.#notApplied !== undefined) await this.#apply();
    } catch (error) {
      this.#isBroken = true;
      this.#refused = undefined;
      const { code, message } = toFailure(error);
      logger.error({ file, code, reason: message }, "the new configuration is not taken; the old one stays");
    }
  }

  async #read(): Promise<string | undefined> {
    const { file, logger } = this.#options;
    try {
      return await readFile(file, "utf8");
    } catch (error) {
      // Told once; a file that is there again is looked at, whatever it says.
      if (this.#text !== undefined) {
        const what = systemCode(error) === "ENOENT" ? "is gone" : "cannot be read";
        logger.error({ file, reason: describeThrown(error) }, `the configuration ${what}; the old one stays`);
      }
      this.#isBroken = true;
      return undefined;
    }
  }

  async #take(next: DaemonConfig): Promise<void> {
    const { file, logger } = this.#options;
    const plan = planReload(this.#config, next);
    // With a key that waits, the two are joined to what nobody has checked.
    checkJoined(plan.config, file);
    const isSame = isDeepStrictEqual(plan.config, this.#config);
    if (!isSame && !(await this.#passes(plan.config))) {
      if (this.#notApplied !== undefined) await this.#apply();
      return;
    }
    this.#refused = undefined;
    const { waiting } = plan;
    if (waiting.length > 0 && !isDeepStrictEqual(waiting, this.#waiting)) {
      logger.warn(
        { file, keys: waiting },
        "these keys have new values that need a restart of the daemon; the old values stay",
      );
    }
    this.#waiting = waiting;
    const wasBroken = this.#isBroken;
    this.#isBroken = false;
    if (this.#notApplied === undefined && isSame) {
      // Else the last that an operator reads of the file is that it is wrong.
      if (wasBroken) logger.info({ file }, "the configuration is right again, and is what is in effect");
      return;
    }
    const { added, removed, changed } = plan;
    this.#config = plan.config;
    await this.#apply({ added, removed, changed });
  }

  async #passes(config: DaemonConfig): Promise<boolean> {
    const { file, check, logger } = this.#options;
    try {
      await check?.(config);
      return true;
    } catch (error) {
      const { code, message } = toFailure(error);
      // The same words at every look would bury everything else.
      const level = message === this.#refused ? "debug" : "error";
      this.#refused = message;
      this.#isBroken = true;
      logger[level](
        { file, code, reason: message },
        "the new configuration is not taken, trying again; the old one stays",
      );
      return false;
    }
  }

  async #apply({ added, removed, changed }: PoolChanges = {}): Promise<void> {
    const { file, apply, logger } = this.#options;
    try {
      await apply(this.#config);
      this.#notApplied = undefined;
      logger.info({ file, added, removed, changed }, "the configuration is in effect");
    } catch (error) {
      const reason = describeThrown(error);
      // The same words at every look would bury everything else.
      const level = reason === this.#notApplied ? "debug" : "error";
      this.#notApplied = reason;
      logger[level]({ err: error, file }, "the configuration is not in effect as a whole, trying again");
    }
  }
}
