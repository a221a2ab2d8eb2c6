import { connect, type Socket } from "node:net";
import { Failure } from "../../src/failure/failure.ts";
import { systemClock } from "../../src/sync/clock.ts";

/** What a command in the guest printed and its exit status. */
export interface ConsoleAnswer {
  readonly output: string;
  readonly status: number;
}

/** How long to wait for an answer. */
export interface ConsoleOptions {
  readonly limitMs?: number;
  readonly signal?: AbortSignal;
}

/** Guests are emulated, and several may boot at once on a busy machine. */
const BOOT_LIMIT_MS = 120_000;
const ANSWER_LIMIT_MS = 60_000;
const RETRY_MS = 250;

/**
 * A guest's serial console behind a unix socket of QEMU, spoken as test/guest/answer.sh answers. One command at a
 * time. After a migration {@link moveTo} the target's socket: the shell in the guest continues.
 */
export class GuestConsole {
  #path: string;
  #socket: Socket | undefined;
  #received = "";
  #onData: () => void = () => undefined;
  #nextId = 1;
  #last: Promise<unknown> = Promise.resolve();

  /** @param path QEMU's socket as this process sees it; it may not exist yet */
  constructor(path: string) {
    this.#path = path;
  }

  /** Talks to another socket from now on. */
  moveTo(path: string): void {
    this.close();
    this.#path = path;
  }

  /** Lets go of the socket; the next command connects again. */
  close(): void {
    this.#socket?.destroy();
    this.#socket = undefined;
    this.#received = "";
  }

  /** Waits until the guest has booted and answers. @throws Failure internal with the console's last words */
  async waitForBoot(options: ConsoleOptions = {}): Promise<void> {
    const end = systemClock.now() + (options.limitMs ?? BOOT_LIMIT_MS);
    const first = this.#nextId;
    for (;;) {
      options.signal?.throwIfAborted();
      try {
        // What is typed before the guest listens is lost, so short questions again and again.
        await this.run("true", { ...options, limitMs: 250 });
        return;
      } catch (cause) {
        if (this.#hasAnswered(first)) return;
        if (systemClock.now() < end) continue;
        throw new Failure({
          code: "internal",
          what: `the guest does not answer on its console; it said: ${this.#received.slice(-1000)}`,
          where: this.#path,
          cause,
        });
      }
    }
  }

  /** Runs a shell command in the guest. @throws Failure internal where no answer comes in time */
  run(command: string, options: ConsoleOptions = {}): Promise<ConsoleAnswer> {
    const answer = this.#last.then(() => this.#ask(command, options));
    this.#last = answer.catch(() => undefined);
    return answer;
  }

  /** Whether it has answered a question since this one, however late: a starved guest may never do so in time. */
  #hasAnswered(first: number): boolean {
    return [...this.#received.matchAll(/>>k(\d+) 0\n/g)].some(([, id]) => Number(id) >= first);
  }

  async #ask(command: string, options: ConsoleOptions): Promise<ConsoleAnswer> {
    const end = systemClock.now() + (options.limitMs ?? ANSWER_LIMIT_MS);
    const socket = await this.#connected(end, options.signal);
    const id = `k${this.#nextId++}`;
    const answer = new RegExp(`<<${id}\\n([\\s\\S]*?)\\n?>>${id} (\\d+)\\n`);
    // A line end first: it closes whatever an earlier half of a line left at the guest.
    socket.write(`\n${id} ${command.replaceAll("\n", ";")}\n`);
    for (;;) {
      const found = answer.exec(this.#received);
      if (found !== null) {
        this.#received = this.#received.slice(found.index + found[0].length);
        return { output: found[1] ?? "", status: Number(found[2]) };
      }
      const left = end - systemClock.now();
      if (left <= 0 || socket.destroyed) {
        const why = socket.destroyed ? "the console closed" : "no answer in time";
        throw new Failure({
          code: "internal",
          what: `guest command "${command}": ${why}; it said: ${this.#received.slice(-500)}`,
          where: this.#path,
        });
      }
      await this.#data(Math.min(left, 1000), options.signal);
    }
  }

  async #connected(end: number, signal: AbortSignal | undefined): Promise<Socket> {
    for (;;) {
      if (this.#socket !== undefined && !this.#socket.destroyed) return this.#socket;
      try {
        this.#socket = await open(this.#path);
        this.#received = "";
        this.#socket.setEncoding("latin1").on("data", (chunk) => {
          this.#received = (this.#received + chunk).slice(-1_000_000);
          this.#onData();
        });
        this.#socket.on("close", () => this.#onData()).on("error", () => undefined);
      } catch (cause) {
        if (systemClock.now() >= end) {
          throw new Failure({
            code: "internal",
            what: "cannot reach the guest's console",
            where: this.#path,
            cause,
          });
        }
        await systemClock.sleep(RETRY_MS, signal);
      }
    }
  }

  async #data(limitMs: number, signal: AbortSignal | undefined): Promise<void> {
    const stop = new AbortController();
    const limit = systemClock
      .sleep(limitMs, signal === undefined ? stop.signal : AbortSignal.any([stop.signal, signal]))
      .catch(() => undefined);
    const data = new Promise<void>((resolve) => {
      this.#onData = resolve;
    });
    await Promise.race([limit, data]);
    stop.abort();
    signal?.throwIfAborted();
  }
}

function open(path: string): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(path);
    socket.once("connect", () => {
      socket.off("error", reject);
      resolve(socket);
    });
    socket.once("error", reject);
  });
}
