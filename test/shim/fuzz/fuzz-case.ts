import { delegationBytes } from "../scripted-daemon.ts";
import type { Dice } from "./dice.ts";

const MIB = 1024 * 1024;

/** What the daemon does with one connection, whatever the shim sends. */
export interface FuzzConnection {
  /** Written one after the other. */
  readonly pieces: readonly Buffer[];
  readonly then: "end" | "destroy" | "stay";
  /** Hang up before the request was read. */
  readonly isDeaf: boolean;
}

/** One call of the executable and the daemon that it meets. */
export interface FuzzCase {
  readonly env: Readonly<Record<string, string>>;
  readonly stdin: Buffer;
  readonly leavesStdinOpen: boolean;
  /** The first, the second and so on; the last one repeats. Empty: nothing listens. */
  readonly connections: readonly FuzzConnection[];
  /** What must come out, where nothing was mutated. */
  readonly expected: { readonly code: number; readonly stdout: Buffer } | undefined;
}

/** Names of the plugins that the fuzzer puts in CNI_PATH, with their scripts. */
export const FUZZ_PLUGINS = {
  echo: "cat",
  deaf: "exec <&-; echo word",
  failing: 'echo "{}"; exit 3',
  killed: "kill -9 $$",
  lasting: "sleep 1000",
  flood: "exec cat /dev/zero",
} as const;

const VERBS = ["ADD", "ADD", "ADD", "DEL", "CHECK", "GC", "STATUS", "VERSION", "", "add", "\u00e9"] as const;
const TYPES = [
  "echo",
  "echo",
  "echo",
  "killed",
  "lasting",
  "flood",
  "deaf",
  "failing",
  "",
  ".",
  "a/b",
  "absent",
] as const;
const NUMBERS = [
  "0",
  "1",
  "-1",
  "",
  " 1",
  "+1",
  "007",
  "1048576",
  "1048577",
  "65536",
  "65537",
  "255",
  "256",
] as const;
const HUGE_NUMBERS = [
  "4294967296",
  "18446744073709551615",
  "18446744073709551616",
  "9".repeat(40),
  "0x10",
] as const;
const CONFIGURATIONS = [
  "",
  "{}",
  '{"cniVersion":"1.0.0","name":"n","type":"kube-vhostuser"}',
  '{ "cniVersion" :\t"0.3.1", "name": "\u00e9" }',
  '{"cniVersion":"1.1.0","ipam":{"type":"host-local"},"prevResult":{"cniVersion":"1.1.0"}}',
  '{"cniVersion":"1.0.0.0.0.0.0.0.0"}',
  '{"cniVersion":"',
] as const;

/** The case that the dice determine. */
export function fuzzCase(dice: Dice): FuzzCase {
  const verb = dice.pick(VERBS);
  const count = dice.oneIn(20) ? 0 : 1 + dice.below(3);
  const isMutated = !dice.oneIn(4);
  const body = randomBody(dice);
  const code = dice.below(2);
  const conversation = () => Buffer.concat([...delegations(dice, isMutated), answerBytes(code, body)]);
  const connections = Array.from({ length: count }, () => someConnection(dice, conversation(), isMutated));
  const isAsked = verb !== "VERSION" && count > 0;
  return {
    env: { ...someEnvironment(dice, isMutated), ...(dice.oneIn(30) ? {} : { CNI_COMMAND: verb }) },
    stdin: isMutated ? someStdin(dice) : Buffer.from(dice.pick(CONFIGURATIONS)),
    leavesStdinOpen: isMutated && dice.oneIn(40),
    connections,
    expected: isMutated || !isAsked ? undefined : { code, stdout: body },
  };
}

function someConnection(dice: Dice, conversation: Buffer, isMutated: boolean): FuzzConnection {
  const bytes = isMutated ? mutate(dice, conversation) : conversation;
  const ends: readonly [FuzzConnection["then"], ...FuzzConnection["then"][]] = ["end", "end", "destroy"];
  // A daemon that hangs up in the middle of a delegation means it; a right one closes when the shim has its answer.
  const then = isMutated && !dice.oneIn(10) ? dice.pick(ends) : "stay";
  return { pieces: piecesOf(dice, bytes), then, isDeaf: isMutated && dice.oneIn(20) };
}

function someEnvironment(dice: Dice, isMutated: boolean): Record<string, string> {
  const env: Record<string, string> = { CNI_IFNAME: "net1", CNI_CONTAINERID: "c0ffee" };
  if (isMutated && dice.oneIn(30)) env["CNI_ARGS"] = "a".repeat(65_000 + dice.below(1_000));
  if (isMutated && dice.oneIn(4))
    env[`CNI_${dice.below(100)}`] = dice.bytes(40).toString("latin1").replaceAll("\0", "");
  if (dice.oneIn(4)) env["SECRET"] = "kept";
  return env;
}

function someStdin(dice: Dice): Buffer {
  if (dice.oneIn(40)) return Buffer.alloc(MIB - 2 + dice.below(4), dice.pick(["{", "\0", '"cniVersion":']));
  if (dice.oneIn(6)) return dice.bytes(dice.below(300));
  return mutate(dice, Buffer.from(dice.pick(CONFIGURATIONS)));
}

function randomBody(dice: Dice): Buffer {
  if (dice.oneIn(60)) return Buffer.alloc(MIB - dice.below(3), "b");
  return Buffer.from(dice.pick(["", "{}\n", '{"cniVersion":"1.0.0","ips":[]}\n', "not JSON", "\0\n0 1\n"]));
}

function answerBytes(code: number, body: Buffer): Buffer {
  return Buffer.concat([Buffer.from(`${code} ${body.length}\n`), body]);
}

function delegations(dice: Dice, isMutated: boolean): Buffer[] {
  return Array.from({ length: dice.below(3) }, () => {
    // Around each bound, with all the bytes that are announced: a parser that forgot the bound writes over its end.
    const isAtBound = () => isMutated && dice.oneIn(15);
    const type = isAtBound() ? "t".repeat(250 + dice.below(12)) : dice.pick(TYPES);
    const stdin = isAtBound()
      ? Buffer.alloc(MIB - 2 + dice.below(5), "s")
      : Buffer.from(dice.pick(CONFIGURATIONS));
    const env: Record<string, string> = { CNI_COMMAND: "ADD" };
    for (let left = dice.below(20); left > 0; left--) env[`CNI_${left}`] = "v".repeat(dice.below(9));
    if (isAtBound()) env["CNI_BIG"] = "b".repeat(65_300 + dice.below(300));
    return delegationBytes(type, env, stdin);
  });
}

/** Some changes of the kinds that break parsers: bits, cuts, repetitions, other numbers. */
function mutate(dice: Dice, original: Buffer): Buffer {
  let bytes = original;
  for (let left = dice.below(4); left > 0; left--) {
    const at = dice.below(bytes.length + 1);
    const to = Math.min(bytes.length, at + dice.below(dice.oneIn(5) ? 5_000 : 9));
    const [head, cut, tail] = [bytes.subarray(0, at), bytes.subarray(at, to), bytes.subarray(to)];
    const put = dice.pick([
      () => Buffer.concat([head, tail]),
      () => Buffer.concat([head, cut, cut, tail]),
      () => Buffer.concat([head, dice.bytes(dice.below(9)), tail]),
      () => Buffer.concat([head, Buffer.from(cut.map((byte) => byte ^ (1 << dice.below(8)))), tail]),
      () => Buffer.from(head),
      () => otherNumber(dice, bytes),
      () => otherNumber(dice, bytes),
    ]);
    bytes = put();
  }
  return bytes;
}

/** Another number in place of one in the first line. */
function otherNumber(dice: Dice, bytes: Buffer): Buffer {
  const newline = bytes.indexOf(0x0a) + 1;
  const numbers = dice.oneIn(2) ? NUMBERS : HUGE_NUMBERS;
  let nth = dice.below(3);
  const line = bytes.toString("latin1", 0, newline);
  const changed = line.replace(/\d+/g, (found) => (nth-- === 0 ? dice.pick(numbers) : found));
  return Buffer.concat([Buffer.from(changed, "latin1"), bytes.subarray(newline)]);
}

function piecesOf(dice: Dice, bytes: Buffer): Buffer[] {
  const size = dice.pick([bytes.length, bytes.length, 1 + dice.below(40), 1]);
  if (size === 0 || bytes.length / size > 2_000) return [bytes];
  const count = Math.ceil(bytes.length / size);
  return Array.from({ length: count }, (_, index) => bytes.subarray(index * size, (index + 1) * size));
}
