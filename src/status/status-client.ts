import { existsSync } from "node:fs";
import { request as send } from "node:http";
import { dirname, join } from "node:path";
import type * as z from "zod";
import type { DaemonConfig } from "../config/schema.ts";
import { describeThrown, Failure, systemCode } from "../failure/failure.ts";

/** The programs' own deadlines are 3 s; kubelet's list may take 5 s. */
const ANSWER_MS = 10_000;
/** Each plugin that CHECK runs may take 15 s. */
const ACTION_MS = 120_000;
/** 10,000 interfaces take some 20 MB. */
const MAX_BYTES = 64 * 1024 * 1024;

type Method = "GET" | "POST";

/** A program of the node that serves its status on a unix socket. */
interface Program {
  readonly name: string;
  readonly code: "daemon-unavailable" | "ipam-agent-unavailable" | "cni-dra-unavailable";
  /** Why nothing listens, and what to do. */
  readonly absent: (cause: unknown) => { readonly what: string; readonly fix: string };
  /** What to do where it does not answer as it should. */
  readonly fix: string;
}

const DAEMON: Program = {
  name: "daemon",
  code: "daemon-unavailable",
  absent: () => ({
    what: "the daemon does not run on this node",
    fix: "vhostuserctl doctor checks the node without it; --socket names another place",
  }),
  fix: "read its log; vhostuserctl doctor checks the node without it",
};

/** Where the IPAM agent's status is: beside its executable's socket, which is in the same directory as the daemon's. */
export function agentStatusSocket(socket: string): string {
  return join(dirname(socket), "ipam-status.sock");
}

/** Where a node's IPAM agent is, or its driver cni-dra. */
export interface ProgramPlace {
  readonly statusSocket: string;
  /** Directory of its journal, which exists where it has run; the daemon's container has it too. */
  readonly stateDirectory: string;
}

/** The agent's places, unless it is started with others. */
export function agentPlace({
  cniSocket,
  recordsDirectory,
}: Pick<DaemonConfig, "cniSocket" | "recordsDirectory">): ProgramPlace {
  return {
    statusSocket: agentStatusSocket(cniSocket),
    stateDirectory: join(recordsDirectory, "ipam"),
  };
}

/** The places of the driver cni-dra, unless it is started with others. */
export function cniDraPlace({
  cniSocket,
  recordsDirectory,
}: Pick<DaemonConfig, "cniSocket" | "recordsDirectory">): ProgramPlace {
  return {
    statusSocket: join(dirname(cniSocket), "cni-dra-status.sock"),
    stateDirectory: join(recordsDirectory, "cni-dra"),
  };
}

/** A program that not every node has. */
interface OptionalProgram extends Pick<Program, "name" | "code"> {
  readonly page: string;
  readonly option: string;
  /** Of its absence. */
  readonly consequence: string;
}

const AGENT: OptionalProgram = {
  ...{ name: "IPAM agent", code: "ipam-agent-unavailable", page: "docs/ipam.md", option: "--agent-socket" },
  consequence: "no pod gets or returns an address",
};
const CNI_DRA: OptionalProgram = {
  ...{ name: "driver cni-dra", code: "cni-dra-unavailable", page: "docs/cni-dra.md" },
  ...{ option: "--cni-dra-socket", consequence: "no pod gets an interface that CNI plugins make" },
};

function optional(
  { name, code, page, option, consequence }: OptionalProgram,
  { stateDirectory }: ProgramPlace,
): Program {
  return {
    ...{ name, code, fix: "read its log" },
    absent: (cause) =>
      isMissing(cause, stateDirectory)
        ? {
            what: `the ${name} is not enabled on this node`,
            fix: `${page} says how to enable it; ${option} names another place`,
          }
        : {
            what: `the ${name} does not run on this node, so ${consequence}`,
            fix: "kubectl -n kube-vhostuser get pods -o wide shows its pod on this node, whose log says why",
          },
  };
}

/**
 * Asks the daemon on this node.
 * @param path with its query
 * @throws Failure `daemon-unavailable` when the daemon does not answer, `undecodable` for another answer
 */
export function askDaemon<Shape extends z.ZodType>(
  socketPath: string,
  path: string,
  shape: Shape,
): Promise<z.output<Shape>> {
  return ask(DAEMON, socketPath, path, shape);
}

/**
 * Asks the IPAM agent on this node.
 * @param path with its query
 * @throws Failure `ipam-agent-unavailable` when the agent does not answer, `undecodable` for another answer
 */
export function askAgent<Shape extends z.ZodType>(
  place: ProgramPlace,
  path: string,
  shape: Shape,
): Promise<z.output<Shape>> {
  return ask(optional(AGENT, place), place.statusSocket, path, shape);
}

/**
 * Asks the driver cni-dra on this node, or has it do something.
 * @param path with its query
 * @throws Failure `cni-dra-unavailable` when the driver does not answer, `undecodable` for another answer
 */
export function askCniDra<Shape extends z.ZodType>(
  place: ProgramPlace,
  path: string,
  shape: Shape,
  method: Method = "GET",
): Promise<z.output<Shape>> {
  return ask(optional(CNI_DRA, place), place.statusSocket, path, shape, method);
}

/** Whether a failure of {@link askAgent} says that the node has no agent, and never had one. */
export function isNotEnabled(error: unknown, { stateDirectory }: ProgramPlace): boolean {
  if (!(error instanceof Failure) || error.code !== "ipam-agent-unavailable") return false;
  return isMissing(error.cause, stateDirectory);
}

function isMissing(cause: unknown, stateDirectory: string): boolean {
  return systemCode(cause) === "ENOENT" && !existsSync(stateDirectory);
}

async function ask<Shape extends z.ZodType>(
  program: Program,
  socketPath: string,
  path: string,
  shape: Shape,
  method: Method = "GET",
): Promise<z.output<Shape>> {
  const body = await read(socketPath, path, method).catch((cause: unknown) => {
    throw cause instanceof Failure ? cause : unreachable(program, socketPath, cause);
  });
  const parsed = shape.safeParse(parseJson(body, socketPath));
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw new Failure({
    code: "undecodable",
    what: `the ${program.name}'s answer is not what this program expects: ${issue?.path.join(".")}: ${issue?.message}`,
    where: socketPath,
    fix: `run the vhostuserctl of the ${program.name}'s own image, with kubectl exec`,
    cause: parsed.error,
  });
}

function parseJson(body: string, socketPath: string): unknown {
  try {
    return JSON.parse(body);
  } catch (cause) {
    throw new Failure({ code: "undecodable", what: "the answer is not JSON", where: socketPath, cause });
  }
}

function read(socketPath: string, path: string, method: Method): Promise<string> {
  return new Promise((resolve, reject) => {
    const signal = AbortSignal.timeout(method === "GET" ? ANSWER_MS : ACTION_MS);
    const request = send({ socketPath, path, method, agent: false, signal }, (response) => {
      const chunks: Buffer[] = [];
      let bytes = 0;
      response.on("data", (chunk: Buffer) => {
        bytes += chunk.length;
        if (bytes > MAX_BYTES) request.destroy(new Error(`its answer is longer than ${MAX_BYTES} bytes`));
        chunks.push(chunk);
      });
      response.on("error", reject);
      response.on("end", () => {
        const text = Buffer.concat(chunks).toString("utf8");
        if (response.statusCode === 200) resolve(text);
        else reject(new Error(`it answered ${response.statusCode}: ${text.trim().slice(0, 300)}`));
      });
    });
    request.on("error", reject);
    request.end();
  });
}

function unreachable(program: Program, where: string, cause: unknown): Failure {
  return new Failure({ code: program.code, ...whyUnreachable(program, cause), where, cause });
}

function whyUnreachable(
  { name, absent, fix }: Program,
  cause: unknown,
): { readonly what: string; readonly fix: string } {
  switch (systemCode(cause)) {
    case "ENOENT":
    case "ECONNREFUSED":
      return absent(cause);
    case "EACCES":
    case "EPERM":
      return { what: `the ${name}'s status socket is for root alone`, fix: "run vhostuserctl as root" };
    default:
      return { what: `the ${name} cannot be asked: ${describeThrown(cause)}`, fix };
  }
}
