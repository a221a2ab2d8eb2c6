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
 * @param name of the pod; an agent's, where there are several
 */
export async function startIpamProgram(
  run: LabRun,
  server: ApiServer,
  program: "ipam-agent" | "ipam-controller",
  args: readonly string[],
  nodeName = "n1",
  name: string = program,
): Promise<Child> {
  const account = `kube-vhostuser-${program}`;
  await server.apply({
    ...{ apiVersion: "v1", kind: "Pod", metadata: { name, namespace: NAMESPACE } },
    spec: { nodeName, serviceAccountName: account, containers: [{ name: "main", image: "none" }] },
  });
  const directory = await server.serviceAccountOf({ namespace: NAMESPACE, name, account });
  const api = ["--service-account", directory, "--api-server", server.url];
  const port = ["--observe-port", String(await freePort())];
  const source = join(PROJECT, "src", program, "main.ts");
  const env = {
    NODE_NAME: nodeName,
    POD_NAMESPACE: NAMESPACE,
    POD_NAME: name,
    POD_UID: `uid-of-${name}`,
  };
  const command = { command: process.execPath, args: [source, ...api, ...port, ...args] };
  return startChild(run, { name, env, ...command });
}
