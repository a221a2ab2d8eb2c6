import { Failure } from "../failure/failure.ts";
import type { DelegateCall, DelegateReply } from "../ipam/ipam.ts";
import type { Answer } from "./answer.ts";

/** Bounds of shim/PROTOCOL.md, in bytes. */
const HEADER_MAX = 80;
const ENVIRONMENT_MAX = 64 * 1024;
const STDIN_MAX = 1024 * 1024;
const REQUEST = /^kube-vhostuser-cni 2 (?<started>\d{1,15}) (?<environment>\d{1,7}) (?<stdin>\d{1,7})$/;
const REPLY_MAX = 1024 * 1024;
const REPLY = /^(\d{1,3}) (\d{1,7})$/;

/** What the shim sends first. */
export interface RequestFrame {
  readonly env: Readonly<Record<string, string>>;
  readonly stdin: Buffer;
  /** When the shim started, in milliseconds of CLOCK_MONOTONIC. */
  readonly startedAtMs: number;
}

/**
 * Parses a request from the bytes received so far; undefined while some are missing.
 * @throws Failure `invalid-request` as soon as it cannot become one
 */
export function parseRequestFrame(bytes: Buffer): RequestFrame | undefined {
  const match = firstLine(bytes, REQUEST, "a request");
  if (match === undefined) return undefined;
  const [line] = match;
  const { started, environment, stdin } = match.groups ?? {};
  const [environmentSize, stdinSize] = [Number(environment), Number(stdin)];
  if (!(environmentSize <= ENVIRONMENT_MAX && stdinSize <= STDIN_MAX))
    throw malformed("a request", "it is too large");
  const environmentEnd = line.length + 1 + environmentSize;
  const end = environmentEnd + stdinSize;
  if (bytes.length < end) return undefined;
  if (bytes.length > end) throw malformed("a request", "there is more than it announced");
  return {
    env: parseEnvironment(bytes.toString("utf8", line.length + 1, environmentEnd)),
    stdin: bytes.subarray(environmentEnd, end),
    startedAtMs: Number(started),
  };
}

/**
 * Parses how a delegated plugin ended from the bytes received since the call; undefined while some are missing.
 * @throws Failure `invalid-request`
 */
export function parseDelegateReply(bytes: Buffer): DelegateReply | undefined {
  const match = firstLine(bytes, REPLY, "a plugin's end");
  if (match === undefined) return undefined;
  const [line, exitCode, size] = match;
  const end = line.length + 1 + Number(size);
  if (Number(size) > REPLY_MAX) throw malformed("a plugin's end", "it is too large");
  if (bytes.length < end) return undefined;
  if (bytes.length > end) throw malformed("a plugin's end", "there is more than it announced");
  return { exitCode: Number(exitCode), stdout: bytes.toString("utf8", line.length + 1, end) };
}

/** The bytes that ask the shim to run a plugin. */
export function delegateFrame({ type, env, stdin }: DelegateCall): Buffer {
  const name = Buffer.from(type);
  const environment = Buffer.from(
    Object.entries(env)
      .map(([key, value]) => `${key}=${value}\0`)
      .join(""),
  );
  const header = Buffer.from(`delegate ${name.length} ${environment.length} ${stdin.length}\n`);
  return Buffer.concat([header, name, environment, stdin]);
}

function firstLine(bytes: Buffer, pattern: RegExp, what: string): RegExpExecArray | undefined {
  const newline = bytes.subarray(0, HEADER_MAX).indexOf(0x0a);
  if (newline < 0) {
    if (bytes.length >= HEADER_MAX) throw malformed(what, "its first line is too long");
    return undefined;
  }
  const match = pattern.exec(bytes.toString("latin1", 0, newline));
  if (match === null) throw malformed(what, "its first line is wrong");
  return match;
}

function parseEnvironment(block: string): Readonly<Record<string, string>> {
  const env: Record<string, string> = Object.create(null);
  for (const entry of block.split("\0")) {
    const at = entry.indexOf("=");
    if (at > 0) env[entry.slice(0, at)] = entry.slice(at + 1);
  }
  return env;
}

function malformed(what: string, why: string): Failure {
  return new Failure({
    code: "invalid-request",
    what: `${what} on the CNI socket is malformed: ${why}`,
    fix: "install the CNI executable of the daemon's release",
  });
}

/** The bytes that go back to the shim. */
export function answerFrame(answer: Answer): Buffer {
  const body = Buffer.from(answer.stdout);
  return Buffer.concat([Buffer.from(`${answer.exitCode} ${body.length}\n`), body]);
}
