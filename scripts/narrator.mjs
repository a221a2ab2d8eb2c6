// @ts-check
// Tells people what a program does and how far it is. Plain JavaScript, because the bootstrap runs on the machine's Node.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";

/**
 * A step with its duration.
 * @typedef {{ readonly name: string, readonly ms: number }} StepTime
 */

/**
 * Where to report: standard output or standard error.
 * @typedef {{ readonly isTTY?: boolean, readonly columns?: number, write(text: string): unknown }} Screen
 */

/** Erases the line that the cursor is in. */
const ERASE = "\r\x1b[K";
const REDRAW_MS = 500;
/** In a pipe a step is announced only if it takes longer. */
const LONG_MS = 3_000;

/**
 * Prints a line for each finished step, and keeps the durations. A terminal also shows, in a line that the next one
 * replaces, what is being done, since when, and how long the rest took the time before.
 */
export class Narrator {
  /** @type {StepTime[]} */
  steps = [];
  #screen;
  #memory;
  /** @type {readonly StepTime[]} */
  #before = [];
  #start = performance.now();
  /** What the terminal's last line shows, while a step runs. @type {(() => string) | undefined} */
  #running;
  #shown = "";
  /** Beginnings of lines. @type {Map<Screen, string>} */
  #parts = new Map();

  /**
   * @param {Screen} screen
   * @param {string} [memory] a file that keeps the steps' durations for the next run, see {@link remember}
   */
  constructor(screen, memory) {
    this.#screen = screen;
    this.#memory = memory;
    try {
      if (memory !== undefined) this.#before = JSON.parse(readFileSync(memory, "utf8"));
    } catch {
      // There is none yet.
    }
  }

  /** A line of its own, for what is not a step. @param {string} line */
  say(line) {
    this.#print(`  ${line}\n`, this.#screen);
  }

  /** For a terminal: how far the present step is. @param {string} text */
  show(text) {
    this.#shown = text;
  }

  /**
   * Passes on what another program prints.
   * @param {string} text
   * @param {Screen} [stream]
   */
  pass(text, stream = this.#screen) {
    const whole = `${this.#parts.get(stream) ?? ""}${text}`;
    // A beginning of a line would be erased with what is shown below it.
    const end = this.#screen.isTTY ? whole.lastIndexOf("\n") + 1 : whole.length;
    this.#parts.set(stream, whole.slice(end));
    if (end > 0) this.#print(whole.slice(0, end), stream);
  }

  /**
   * Does a step and reports it.
   * @template [Result=void]
   * @param {string} name short and stable
   * @param {string} doing what happens meanwhile
   * @param {() => Promise<{ readonly say?: string, readonly result?: Result } | void>} work gives what to say of it,
   *   where that is not what was done
   * @returns {Promise<Result>}
   */
  async step(name, doing, work) {
    const begin = performance.now();
    const elapsed = () => performance.now() - begin;
    this.#shown = "";
    this.#running = () => {
      const left = this.#left(name, elapsed());
      const times = `  ${duration(elapsed())}${left === undefined ? "" : `, about ${duration(left)} left`}`;
      const text = `${this.#clock()}  ${[doing, this.#shown].filter(Boolean).join(": ")}`;
      return `${text.slice(0, (this.#screen.columns || 80) - 5 - times.length)} ...${times}`;
    };
    this.#redraw();
    const announced = () => this.#screen.isTTY || this.#screen.write(`${name}: ${doing} ...\n`);
    const timers = [setInterval(() => this.#redraw(), REDRAW_MS), setTimeout(announced, LONG_MS)];
    try {
      const done = (await work()) ?? {};
      this.steps.push({ name, ms: Math.round(elapsed()) });
      this.#running = undefined;
      const said = `${this.#clock()}  ${name.padEnd(10)} ${done.say ?? doing}`;
      this.#print(`${said}  (${duration(elapsed())})\n`, this.#screen);
      return /** @type {Result} */ (done.result);
    } finally {
      for (const timer of timers) clearTimeout(timer);
      this.#running = undefined;
      if (this.#screen.isTTY) this.#screen.write(ERASE);
    }
  }

  /** Keeps the durations: the next run tells by them how much time is left. */
  remember() {
    if (this.#memory === undefined) return;
    mkdirSync(dirname(this.#memory), { recursive: true });
    writeFileSync(this.#memory, JSON.stringify(this.steps));
  }

  /**
   * What this and the later steps took the time before; undefined where that run had other steps.
   * @param {string} name
   * @param {number} elapsed
   */
  #left(name, elapsed) {
    const [present, ...later] = this.#before.slice(this.steps.length);
    if (present?.name !== name) return undefined;
    return later.reduce((sum, { ms }) => sum + ms, Math.max(0, present.ms - elapsed));
  }

  #clock() {
    return `${((performance.now() - this.#start) / 1000).toFixed(1).padStart(5)} s`;
  }

  /**
   * @param {string} text
   * @param {Screen} stream
   */
  #print(text, stream) {
    if (this.#screen.isTTY) this.#screen.write(ERASE);
    stream.write(text);
    this.#redraw();
  }

  #redraw() {
    if (!this.#screen.isTTY || this.#running === undefined) return;
    this.#screen.write(`${ERASE}${this.#running()}`);
  }
}

/** @param {number} ms */
function duration(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  return seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}
