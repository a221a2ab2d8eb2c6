import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { compileShim } from "../../../scripts/build/compile-shim.ts";
import type { ShimCommand } from "../run-shim.ts";
import { ShimRig } from "../shim-rig.ts";
import { Dice } from "./dice.ts";
import { FUZZ_PLUGINS, type FuzzCase, fuzzCase } from "./fuzz-case.ts";
import { type FuzzDaemon, playFuzz } from "./fuzz-daemon.ts";

/** Macros of shim/bounds.h. Where the answer is known, only a delegate's time is over soon. */
const LENIENT = { DELEGATE_MS: 400, DELEGATE_GRACE_MS: 100 } as const;
/** Where nothing is known, whatever waits is over soon. */
const STRICT = {
  ...LENIENT,
  ...{ LISTEN_MS: 200, LISTEN_DEL_MS: 100, RETURN_MS: 200, RETURN_DEL_MS: 100, REPEAT_AFTER_MS: 1 },
  ...{ STDIN_MS: 300, CALL_MS: 1_500 },
} as const;

/** What to run. */
export interface FuzzOptions {
  /** Each case has a seed of its own: this one, the next and so on. */
  readonly seed: number;
  readonly runs: number;
  readonly atOnce: number;
  readonly progress?: (done: number) => void;
}

/** A case in which the executable did what it must not. */
export interface FuzzFinding {
  readonly seed: number;
  readonly what: string;
}

/**
 * Runs the executable, built with AddressSanitizer and UndefinedBehaviorSanitizer, against input and daemons that the
 * seeds determine. It must neither end by a signal nor print anything but a whole body or an error of its own.
 */
export async function fuzzShim(options: FuzzOptions): Promise<readonly FuzzFinding[]> {
  const directory = await mkdtemp(join(tmpdir(), "kvu-shim-fuzz-"));
  try {
    const build = async (name: string, defines: Readonly<Record<string, number>>) => ({
      executable: await compileShim({ output: join(directory, name), sanitized: true, defines }),
    });
    const commands = { lenient: await build("lenient", LENIENT), strict: await build("strict", STRICT) };
    await using rig = await ShimRig.open(commands.lenient);
    for (const [name, script] of Object.entries(FUZZ_PLUGINS)) await rig.plugin(name, script);
    await mkdir(join(rig.plugins, "folder"));
    const findings: FuzzFinding[] = [];
    let next = 0;
    let done = 0;
    const work = async () => {
      while (next < options.runs) {
        const seed = (options.seed + next++) >>> 0;
        const what = await runCase(rig, commands, seed);
        if (what !== undefined) findings.push({ seed, what });
        options.progress?.(++done);
      }
    };
    await Promise.all(Array.from({ length: options.atOnce }, work));
    return findings;
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

interface Commands {
  readonly lenient: ShimCommand;
  readonly strict: ShimCommand;
}

async function runCase(rig: ShimRig, commands: Commands, seed: number): Promise<string | undefined> {
  const fuzz = fuzzCase(new Dice(seed));
  const socketPath = join(rig.directory, `${seed}.sock`);
  await using daemon = await playFuzz(socketPath, fuzz.connections);
  const env = {
    PATH: "/usr/bin:/bin",
    CNI_PATH: rig.plugins,
    ...fuzz.env,
    KUBE_VHOSTUSER_CNI_SOCKET: socketPath,
    // Not 1, which is the shim's own.
    ASAN_OPTIONS: "exitcode=99",
    UBSAN_OPTIONS: "exitcode=99",
  };
  const command = fuzz.expected === undefined ? commands.strict : commands.lenient;
  const { ended } = rig.startBare({
    command,
    env,
    encoding: "latin1",
    stdin: fuzz.leavesStdinOpen ? undefined : fuzz.stdin,
  });
  const { code, signal, stdout, stderr } = await ended;
  if (stderr !== "") return `it wrote to stderr: ${stderr.slice(0, 4_000)}`;
  if (signal !== null || (code !== 0 && code !== 1)) return `it ended with ${code ?? signal}`;
  return wrongOutput(fuzz, code, stdout) ?? wrongRequest(fuzz, env, daemon);
}

function wrongOutput(fuzz: FuzzCase, code: number, stdout: string): string | undefined {
  const printed = Buffer.from(stdout, "latin1");
  if (fuzz.expected !== undefined) {
    const { expected } = fuzz;
    return code === expected.code && printed.equals(expected.stdout)
      ? undefined
      : `expected ${expected.code} ${show(expected.stdout)}, got ${code} ${show(printed)}`;
  }
  if (stdout === "" || isOwn(stdout, code)) return undefined;
  const wasSent = fuzz.connections.some(({ pieces }) => Buffer.concat(pieces).includes(printed));
  return wasSent ? undefined : `it printed what was not sent: ${show(printed)}`;
}

function isOwn(stdout: string, code: number): boolean {
  try {
    const answer: unknown = JSON.parse(stdout);
    if (typeof answer !== "object" || answer === null) return false;
    if ("supportedVersions" in answer) return code === 0;
    return "code" in answer && "msg" in answer && [5, 11, 50].includes(Number(answer.code)) && code === 1;
  } catch {
    return false;
  }
}

/** What the daemon received must be the start of the one request that the call makes. */
function wrongRequest(
  fuzz: FuzzCase,
  env: Readonly<Record<string, string>>,
  daemon: FuzzDaemon | undefined,
): string | undefined {
  const variables = Object.entries(env).filter(([name]) => name.startsWith("CNI_"));
  const blockSize = variables.reduce(
    (sum, [name, value]) => sum + Buffer.byteLength(`${name}=${value}\0`),
    0,
  );
  for (const chunks of daemon?.received ?? []) {
    const bytes = Buffer.concat(chunks);
    const [, start = "0"] = /^kube-vhostuser-cni 2 (\d{1,15})/.exec(bytes.toString("latin1", 0, 80)) ?? [];
    const header = Buffer.from(`kube-vhostuser-cni 2 ${start} ${blockSize} ${fuzz.stdin.length}\n`);
    const stdin = bytes.subarray(header.length + blockSize, header.length + blockSize + fuzz.stdin.length);
    const size = Math.min(header.length, bytes.length);
    if (!bytes.subarray(0, size).equals(header.subarray(0, size))) return `its request began ${show(bytes)}`;
    if (!stdin.equals(fuzz.stdin.subarray(0, stdin.length))) return "its request had another stdin";
  }
  return undefined;
}

function show(bytes: Buffer): string {
  return `${bytes.length} bytes ${JSON.stringify(bytes.toString("latin1", 0, 200))}`;
}
