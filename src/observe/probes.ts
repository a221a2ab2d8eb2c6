import { access, constants } from "node:fs/promises";
import { connect } from "node:net";
import { describeThrown } from "../failure/failure.ts";
import { orAborted } from "../sync/deadlines.ts";
import { type Page, text } from "./http-server.ts";
import type { ObservedNode } from "./observed-node.ts";

/** Below the second that kubelet gives a probe by default. */
const CHECK_MS = 800;

/** Something that a probe checks. */
export interface Check {
  readonly name: string;
  /** What is wrong; undefined when nothing is. Rejecting counts as wrong too. */
  readonly problem: (signal: AbortSignal) => string | undefined | Promise<string | undefined>;
}

/** Runs checks at once; one without an answer when the signal fires has failed. The text has a line for each. */
export async function runChecks(
  checks: readonly Check[],
  signal: AbortSignal,
): Promise<{ readonly ok: boolean; readonly text: string }> {
  const lines = await Promise.all(
    checks.map(async ({ name, problem }) => {
      const found = Promise.resolve().then(() => problem(signal));
      const wrong = await orAborted(found, signal, () => new Error("no answer in time")).catch(
        describeThrown,
      );
      return `${name}: ${wrong === undefined ? "ok" : `NOT OK, ${wrong}`}\n`;
    }),
  );
  const ok = lines.every((line) => line.endsWith(": ok\n"));
  return { ok, text: `${ok ? "ok" : "not ok"}\n${lines.join("")}` };
}

/** A probe's page: 200 where nothing is wrong, else 503, with a line for each check. */
export async function probe(checks: readonly Check[]): Promise<Page> {
  const { ok, text: lines } = await runChecks(checks, AbortSignal.timeout(CHECK_MS));
  return text(ok ? 200 : 503, lines);
}

/**
 * What the daemon needs to serve kubelet and the container runtime. The switch is not part of it: while it is away its
 * devices are unhealthy, which kubelet knows, and the daemon goes on with DEL, reclaiming and other pools. An unready
 * daemon would hide that, and stop a rollout that may be the remedy.
 */
export function readinessChecks(node: ObservedNode): readonly Check[] {
  return [
    { name: "root", problem: () => node.rootProblem() },
    { name: "records", problem: () => unwritable(node.recordsDirectory) },
    { name: "CNI socket", problem: (signal) => unanswered(node.cniSocket, signal) },
    { name: "kubelet plugins", problem: () => unregistered(node) },
  ];
}

/** What is wrong with a directory that is to be written. */
export async function unwritable(directory: string): Promise<string | undefined> {
  try {
    await access(directory, constants.W_OK | constants.X_OK);
    return undefined;
  } catch (error) {
    return `${directory} cannot be written: ${describeThrown(error)}`;
  }
}

/** Connects as the CNI executable does and leaves without a request, which the server does not log. */
async function unanswered(path: string, signal: AbortSignal): Promise<string | undefined> {
  const socket = connect({ path });
  try {
    const connected = new Promise<void>((resolve, reject) => {
      socket.once("connect", resolve);
      socket.on("error", reject);
    });
    await orAborted(connected, signal);
    return undefined;
  } catch (error) {
    return `${path} is not served: ${describeThrown(error)}`;
  } finally {
    socket.destroy();
  }
}

function unregistered(node: ObservedNode): string | undefined {
  const plugins = node.plugins();
  if (plugins.length === 0) return "none is started yet";
  const missing = plugins.flatMap(({ registered, resource }) => (registered ? [] : [resource]));
  return missing.length === 0 ? undefined : `not registered with kubelet: ${missing.join(", ")}`;
}
