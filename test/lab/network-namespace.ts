import type { LabRun } from "../machine/lab-run.ts";
import { runProgram } from "../machine/run-program.ts";
import { removeNetworkNamespace } from "../machine/undo-trace.ts";

/** A pod's network namespace. */
export interface NetworkNamespace {
  readonly name: string;
  /** What CNI_NETNS holds. */
  readonly path: string;
  /** Makes the tap device that KubeVirt's masquerade binding makes; root or `owner` may open it. */
  addTap(name: string, owner?: number): Promise<void>;
  /** Deletes it. Idempotent. */
  remove(): Promise<void>;
}

/** Makes a named network namespace with loopback up; it goes with the run at the latest. */
export async function addNetworkNamespace(run: LabRun, podName: string): Promise<NetworkNamespace> {
  const name = `${run.name}-${podName}`;
  const trace = run.journal.note({ kind: "network-namespace", name });
  const remove = run.cleanup.defer(`remove network namespace ${name}`, async () => {
    await removeNetworkNamespace(name);
    run.journal.strike(trace);
  });
  await runProgram("ip", ["netns", "add", name]);
  await runProgram("ip", ["-n", name, "link", "set", "lo", "up"]);
  return {
    name,
    path: `/var/run/netns/${name}`,
    addTap: async (tap, owner = 107) => {
      const user = String(owner);
      await runProgram("ip", ["-n", name, "tuntap", "add", tap, "mode", "tap", "user", user, "group", user]);
      await runProgram("ip", ["-n", name, "link", "set", tap, "up"]);
    },
    remove,
  };
}
