import { join } from "node:path";
import { ApiServer } from "../cluster/api-server.ts";
import { kubernetesParts, WHEREABOUTS_VARIABLE } from "../cluster/kubernetes-parts.ts";
import { whereaboutsDefinitions, whereaboutsIpam } from "../cluster/whereabouts.ts";
import type { LabRun } from "../machine/lab-run.ts";
import { IpamCalls } from "./ipam-calls.ts";

/** The executable of whereabouts; undefined where none is given. */
export const WHEREABOUTS = process.env[WHEREABOUTS_VARIABLE];

/** whereabouts with a real API server, whose etcd does not wait for its disk (`--unsafe-no-fsync`). */
export async function openWhereabouts(run: LabRun, command: string, netns: string): Promise<IpamCalls> {
  const server = await ApiServer.start(run, kubernetesParts(process.env, ["etcd", "apiServer"]));
  await server.apply(...whereaboutsDefinitions());
  await server.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s");
  const ipam = await whereaboutsIpam(server, join(run.directory, "whereabouts.d"), "10.28.0.0/16");
  return new IpamCalls({ command, env: { NODENAME: "bench" }, ipam }, netns);
}
