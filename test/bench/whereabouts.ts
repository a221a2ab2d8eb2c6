import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { ApiServer } from "../cluster/api-server.ts";
import { kubernetesParts } from "../cluster/kubernetes-parts.ts";
import type { LabRun } from "../machine/lab-run.ts";
import { IpamCalls } from "./ipam-calls.ts";

/** Kinds of its API, by their plural. */
const KINDS = {
  ippools: "IPPool",
  nodeslicepools: "NodeSlicePool",
  overlappingrangeipreservations: "OverlappingRangeIPReservation",
} as const;

/** The executable of whereabouts; undefined where none is given. */
export const WHEREABOUTS = process.env["WHEREABOUTS_BIN"];

/** whereabouts with a real API server, whose etcd does not wait for its disk (`--unsafe-no-fsync`). */
export async function openWhereabouts(run: LabRun, command: string, netns: string): Promise<IpamCalls> {
  const server = await ApiServer.start(run, kubernetesParts(process.env, ["etcd", "apiServer"]));
  await server.apply(...Object.entries(KINDS).map(([plural, kind]) => definitionOf(plural, kind)));
  await server.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s");
  const directory = join(run.directory, "whereabouts.d");
  await mkdir(directory);
  const configurationPath = join(directory, "whereabouts.conf");
  const kubernetes = { kubeconfig: join(server.administrator, "admin.json") };
  await writeFile(configurationPath, JSON.stringify({ kubernetes }));
  const ipam = {
    type: "whereabouts",
    range: "10.28.0.0/16",
    configuration_path: configurationPath,
    kubernetes,
  };
  return new IpamCalls({ command, env: { NODENAME: "bench" }, ipam }, netns);
}

function definitionOf(plural: string, kind: string): object {
  const group = "whereabouts.cni.cncf.io";
  const schema = { openAPIV3Schema: { type: "object", "x-kubernetes-preserve-unknown-fields": true } };
  return {
    ...{ apiVersion: "apiextensions.k8s.io/v1", kind: "CustomResourceDefinition" },
    metadata: { name: `${plural}.${group}` },
    spec: {
      ...{ group, scope: "Namespaced", names: { plural, singular: kind.toLowerCase(), kind } },
      versions: [{ name: "v1alpha1", served: true, storage: true, schema }],
    },
  };
}
