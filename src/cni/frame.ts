import { Failure } from "../failure/failure.ts";
import type { DelegateCall, DelegateReply } from "../ipam/ipam.ts";
import type { Answer } from "./answer.ts";
import type { RawRequest } from "./request.ts";

/** Bounds of shim/PROTOCOL.md, in bytes. */
const HEADER_MAX = 80;
const ENVIRONMENT_MAX = 64 * 1024;
const STDIN_MAX = 1024 * 1024;
const REQUEST = /^kube-vhostuser-cni 2 (\d{1,15}) (\d{1,7}) (\d{1,7})$/;
const REPLY_MAX = 1024 * 1024;
const REPLY = /^(\d{1,3}) (\d{1,7})$/;

/**
 * Parses a request from the bytes received so far; undefined while some are missing.
 * @throws Failure `invalid-request` as soon as it cannot become one
 */
export function parseRequestFrame(bytes: Buffer): Omit<RawRequest, "delegate"> | undefined {
  const frame = parseFrame(bytes, REQUEST, [ENVIRONMENT_MAX, STDIN_MAX], "a request");
  if (frame === undefined) return undefined;
  const [environment, stdin] = frame.parts;
  return {
    env: parseEnvironment(environment?.toString("utf8") ?? ""),
    stdin: stdin ?? Buffer.alloc(0),
    startedAtMs: frame.number,
  };
}

/**
 * Parses how a delegated plugin ended from the bytes received since the call; undefined while some are missing.
 * @throws Failure `invalid-request`
 */
export function parseDelegateReply(bytes: Buffer): DelegateReply | undefined {
  const frame = parseFrame(bytes, REPLY, [REPLY_MAX], "a plugin's end");
  return frame && { exitCode: frame.number, stdout: Buffer.concat(frame.parts).toString("utf8") };
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

/** A first line that ends with a number and the sizes of the parts behind it; undefined while some bytes are missing. */
function parseFrame(
  bytes: Buffer,
  firstLine: RegExp,
  sizesMax: readonly number[],
  what: string,
): { readonly number: number; readonly parts: readonly Buffer[] } | undefined {
  const newline = bytes.subarray(0, HEADER_MAX).indexOf(0x0a);
  if (newline < 0) {
    if (bytes.length >= HEADER_MAX) throw malformed(what, "its first line is too long");
    return undefined;
  }
  const match = firstLine.exec(bytes.toString("latin1", 0, newline));
  if (match === null) throw malformed(what, "its first line is wrong");
  const [number = 0, ...sizes] = match.slice(1).map(Number);
  if (sizesMax.some((max, index) => (sizes[index] ?? 0) > max)) throw malformed(what, "it is too large");
  let end = newline + 1;
  const parts: Buffer[] = [];
  for (const size of sizes) {
    parts.push(bytes.subarray(end, end + size));
    end += size;
  }
  if (bytes.length < end) return undefined;
  if (bytes.length > end) throw malformed(what, "there is more than it announced");
  return { number, parts };
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
