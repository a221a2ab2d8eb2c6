import { access, constants } from "node:fs/promises";
import { connect } from "node:net";
import { describeThrown } from "../failure/failure.ts";
import { orAborted } from "../sync/deadlines.ts";
import type { Check } from "./checks.ts";
import type { NodeView } from "./node-view.ts";

/**
 * What must be so for the daemon to serve kubelet and the container runtime. The switch is not part of it: while
 * it is away its pools' devices are unhealthy, which kubelet knows, and the daemon goes on with all else (DEL,
 * reclaiming, other pools). An unready daemon would hide that, and stop a rollout that may be the remedy.
 */
export function readinessChecks(view: NodeView): readonly Check[] {
  return [
    { name: "records", problem: () => unwritable(view.recordsDirectory) },
    { name: "CNI socket", problem: (signal) => unanswered(view.cniSocket, signal) },
    { name: "kubelet plugins", problem: () => unregistered(view) },
  ];
}

async function unwritable(directory: string): Promise<string | undefined> {
  try {
    await access(directory, constants.W_OK | constants.X_OK);
    return undefined;
  } catch (error) {
    return `${directory} cannot be written: ${describeThrown(error)}`;
  }
}

/** Connects as the CNI executable does and goes away without a request, which the server takes in silence. */
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
    return `nobody serves ${path}: ${describeThrown(error)}`;
  } finally {
    socket.destroy();
  }
}

function unregistered(view: NodeView): string | undefined {
  const plugins = view.plugins();
  if (plugins.length === 0) return "none is started yet";
  const missing = plugins.filter(({ registered }) => !registered).map(({ resource }) => resource);
  return missing.length === 0 ? undefined : `not registered with kubelet: ${missing.join(", ")}`;
}
