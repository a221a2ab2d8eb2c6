import { get } from "node:http";
import type * as z from "zod";
import { describeThrown, Failure, systemCode } from "../failure/failure.ts";

/** The daemon's own deadline is 3 s; kubelet's list may take 5 s. */
const ANSWER_MS = 10_000;
/** 10,000 interfaces take some 20 MB. */
const MAX_BYTES = 64 * 1024 * 1024;

/**
 * Asks the daemon on this node.
 * @param path with its query
 * @throws Failure `daemon-unavailable` when the daemon does not answer, `undecodable` for another answer
 */
export async function askDaemon<Shape extends z.ZodType>(
  socketPath: string,
  path: string,
  shape: Shape,
): Promise<z.output<Shape>> {
  const body = await read(socketPath, path).catch((cause: unknown) => {
    throw cause instanceof Failure ? cause : unreachable(socketPath, cause);
  });
  const parsed = shape.safeParse(parseJson(body, socketPath));
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw new Failure({
    code: "undecodable",
    what: `the daemon's answer is not what this program expects: ${issue?.path.join(".")}: ${issue?.message}`,
    where: socketPath,
    fix: "run the vhostuserctl of the daemon's own image, with kubectl exec",
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

function read(socketPath: string, path: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const signal = AbortSignal.timeout(ANSWER_MS);
    const request = get({ socketPath, path, agent: false, signal }, (response) => {
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
  });
}

function unreachable(where: string, cause: unknown): Failure {
  return new Failure({ code: "daemon-unavailable", ...whyUnreachable(cause), where, cause });
}

function whyUnreachable(cause: unknown): { readonly what: string; readonly fix: string } {
  switch (systemCode(cause)) {
    case "ENOENT":
    case "ECONNREFUSED":
      return {
        what: "the daemon does not run on this node",
        fix: "vhostuserctl doctor checks the node without it; --socket names another place",
      };
    case "EACCES":
    case "EPERM":
      return { what: "the daemon's status socket is for root alone", fix: "run vhostuserctl as root" };
    default:
      return {
        what: `the daemon cannot be asked: ${describeThrown(cause)}`,
        fix: "read its log; vhostuserctl doctor checks the node without it",
      };
  }
}
