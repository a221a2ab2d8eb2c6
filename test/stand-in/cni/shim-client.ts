import { spawn } from "node:child_process";
import { access, constants } from "node:fs/promises";
import { createConnection, type Socket } from "node:net";
import { join } from "node:path";
import { monotonicMs } from "../../../src/sync/clock.ts";

/** A verb as a runtime has it executed. */
export interface ShimRun {
  readonly socketPath: string;
  /** All CNI_ variables, CNI_PATH among them. */
  readonly env: Readonly<Record<string, string>>;
  readonly stdin: string | Buffer;
  /** Ends the shim silently when it is asked to run a plugin for this verb: before or after running it. */
  readonly diesAt?: { readonly verb: string; readonly when: "before" | "after" };
}

/** What the runtime gets. */
export interface ShimEnd {
  readonly exitCode: number;
  readonly stdout: string;
}

/** The shim died on purpose, or the daemon hung up. */
export class NoAnswer extends Error {
  override readonly name = "NoAnswer";
}

/**
 * The shim's side of src/cni/shim/PROTOCOL.md with real plugins, for tests that want it to die at a chosen point.
 * @throws NoAnswer
 */
export async function runShim(run: ShimRun): Promise<ShimEnd> {
  const socket = createConnection(run.socketPath);
  const reader = new FrameReader(socket);
  try {
    const environment = Buffer.from(environmentBlock(run.env));
    const stdin = Buffer.from(run.stdin);
    socket.write(`kube-vhostuser-cni 2 ${Math.floor(monotonicMs())} ${environment.length} ${stdin.length}\n`);
    socket.write(environment);
    socket.write(stdin);
    for (;;) {
      const [kind = "", ...sizes] = (await reader.line()).split(" ");
      if (kind !== "delegate") return { exitCode: Number(kind), stdout: await reader.text(Number(sizes[0])) };
      const [type, block, input] = [
        await reader.text(Number(sizes[0])),
        await reader.text(Number(sizes[1])),
        await reader.text(Number(sizes[2])),
      ];
      const env = Object.fromEntries(block.split("\0").filter(Boolean).map(splitAtEquals));
      const dies = run.diesAt?.verb === env["CNI_COMMAND"] ? run.diesAt?.when : undefined;
      if (dies === "before") throw new NoAnswer("died before the plugin ran");
      const hungUp = new AbortController();
      const ended = runDelegate({ type, env, input, hungUp: hungUp.signal }, run.env["CNI_PATH"] ?? "");
      // A daemon that says something now waits no longer: it answers, and hangs up.
      const end = await Promise.race([ended, reader.untilMore()]);
      if (end === undefined) {
        hungUp.abort();
        await ended;
        continue;
      }
      if (dies === "after") throw new NoAnswer("died after the plugin ran");
      const output = Buffer.from(end.stdout);
      socket.write(`${end.exitCode} ${output.length}\n`);
      socket.write(output);
    }
  } finally {
    socket.destroy();
  }
}

function environmentBlock(env: Readonly<Record<string, string>>): string {
  return Object.entries(env)
    .map(([name, value]) => `${name}=${value}\0`)
    .join("");
}

function splitAtEquals(entry: string): [string, string] {
  const at = entry.indexOf("=");
  return [entry.slice(0, at), entry.slice(at + 1)];
}

interface DelegateRun {
  readonly type: string;
  readonly env: Readonly<Record<string, string>>;
  readonly input: string;
  /** Ends it. */
  readonly hungUp: AbortSignal;
}

async function runDelegate(run: DelegateRun, cniPath: string): Promise<ShimEnd> {
  const { type } = run;
  for (const directory of cniPath.split(":")) {
    const path = join(directory, type);
    const executable = await access(path, constants.X_OK).then(
      () => true,
      () => false,
    );
    if (executable) return execute(path, run);
  }
  return { exitCode: 127, stdout: "" };
}

function execute(path: string, { env, input, hungUp }: DelegateRun): Promise<ShimEnd> {
  return new Promise((resolve, reject) => {
    const child = spawn(path, [], {
      env: { PATH: "/usr/bin:/bin", ...env },
      stdio: ["pipe", "pipe", "inherit"],
    });
    hungUp.addEventListener("abort", () => child.kill("SIGKILL"), { once: true });
    let stdout = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      stdout += text;
    });
    child.stdin.on("error", () => undefined);
    child.on("error", reject);
    child.on("close", (code) => resolve({ exitCode: code ?? 137, stdout }));
    child.stdin.end(input);
  });
}

/** Reads lines and counted bytes off a socket. */
class FrameReader {
  readonly #chunks: AsyncIterator<Buffer>;
  #bytes = Buffer.alloc(0);
  /** What was waited for and not yet taken. */
  #coming: Promise<IteratorResult<Buffer>> | undefined;

  constructor(socket: Socket) {
    this.#chunks = socket[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
  }

  async line(): Promise<string> {
    while (!this.#bytes.includes(0x0a)) await this.#more();
    const at = this.#bytes.indexOf(0x0a);
    const text = this.#bytes.toString("latin1", 0, at);
    this.#bytes = this.#bytes.subarray(at + 1);
    return text;
  }

  async text(size: number): Promise<string> {
    while (this.#bytes.length < size) await this.#more();
    const text = this.#bytes.toString("utf8", 0, size);
    this.#bytes = this.#bytes.subarray(size);
    return text;
  }

  /** Resolves when there is something to read, or nothing can come any more. */
  async untilMore(): Promise<undefined> {
    this.#coming ??= this.#chunks.next();
    await this.#coming.catch(() => undefined);
  }

  async #more(): Promise<void> {
    const coming = this.#coming ?? this.#chunks.next();
    this.#coming = undefined;
    const next = await coming.catch((cause: unknown) => {
      throw new NoAnswer("the connection broke", { cause });
    });
    if (next.done === true) throw new NoAnswer("the daemon hung up");
    this.#bytes = Buffer.concat([this.#bytes, next.value]);
  }
}
