import { join } from "node:path";
import { type Child, startChild } from "../machine/child.ts";
import { freePort } from "../machine/free-port.ts";
import type { LabRun } from "../machine/lab-run.ts";
import type { ApiServer } from "./api-server.ts";
import { PROJECT } from "./kubernetes-parts.ts";

/** Namespace of the chart's objects. */
export const NAMESPACE = "kube-vhostuser";

/**
 * Starts a program of IPAM with the token of its pod, so that it has the chart's rights and no others. The chart is
 * installed before.
 * @param args beside those for the API server
 * @param nodeName node of the pod
 */
export async function startIpamProgram(
  run: LabRun,
  server: ApiServer,
  program: "ipam-agent" | "ipam-controller",
  args: readonly string[],
  nodeName = "n1",
): Promise<Child> {
  const account = `kube-vhostuser-${program}`;
  await server.apply({
    ...{ apiVersion: "v1", kind: "Pod", metadata: { name: program, namespace: NAMESPACE } },
    spec: { nodeName, serviceAccountName: account, containers: [{ name: "main", image: "none" }] },
  });
  const directory = await server.serviceAccountOf({ namespace: NAMESPACE, name: program, account });
  const api = ["--service-account", directory, "--api-server", server.url];
  const port = ["--observe-port", String(await freePort())];
  const source = join(PROJECT, "src", program, "main.ts");
  const env = {
    NODE_NAME: nodeName,
    POD_NAMESPACE: NAMESPACE,
    POD_NAME: program,
    POD_UID: `uid-of-${program}`,
  };
  const command = { command: process.execPath, args: [source, ...api, ...port, ...args] };
  return startChild(run, { name: program, env, ...command });
}
