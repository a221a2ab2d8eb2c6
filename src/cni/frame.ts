import { Failure } from "../failure/failure.ts";
import type { Answer } from "./answer.ts";
import type { RawRequest } from "./request.ts";

/** Bounds of shim/PROTOCOL.md, in bytes. */
const HEADER_MAX = 80;
const ENVIRONMENT_MAX = 64 * 1024;
const STDIN_MAX = 1024 * 1024;
const HEADER = /^kube-vhostuser-cni 1 (\d{1,7}) (\d{1,7})$/;

/**
 * A whole request out of the bytes received so far, or undefined while some are missing.
 * @throws Failure `invalid-request` as soon as it cannot become one
 */
export function parseRequestFrame(bytes: Buffer): RawRequest | undefined {
  const newline = bytes.subarray(0, HEADER_MAX).indexOf(0x0a);
  if (newline < 0) {
    if (bytes.length >= HEADER_MAX) throw malformed("its first line is too long");
    return undefined;
  }
  const match = HEADER.exec(bytes.toString("latin1", 0, newline));
  const environmentSize = Number(match?.[1] ?? Number.NaN);
  const stdinSize = Number(match?.[2] ?? Number.NaN);
  if (!(environmentSize <= ENVIRONMENT_MAX && stdinSize <= STDIN_MAX))
    throw malformed("its first line is wrong");
  const environmentEnd = newline + 1 + environmentSize;
  const end = environmentEnd + stdinSize;
  if (bytes.length < end) return undefined;
  if (bytes.length > end) throw malformed("there is more than it announced");
  return {
    env: parseEnvironment(bytes.toString("utf8", newline + 1, environmentEnd)),
    stdin: bytes.subarray(environmentEnd, end),
  };
}

function parseEnvironment(block: string): Readonly<Record<string, string>> {
  const env: Record<string, string> = Object.create(null);
  for (const entry of block.split("\0")) {
    const at = entry.indexOf("=");
    if (at > 0) env[entry.slice(0, at)] = entry.slice(at + 1);
  }
  return env;
}

function malformed(why: string): Failure {
  return new Failure({
    code: "invalid-request",
    what: `a request on the CNI socket is malformed: ${why}`,
    fix: "install the CNI executable of the daemon's release",
  });
}

/** The bytes that go back to the shim. */
export function answerFrame(answer: Answer): Buffer {
  const body = Buffer.from(answer.stdout);
  return Buffer.concat([Buffer.from(`${answer.exitCode} ${body.length}\n`), body]);
}
