import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { ApiServer } from "./api-server.ts";

/** Kinds of its API, by their plural. */
const KINDS = {
  ippools: "IPPool",
  nodeslicepools: "NodeSlicePool",
  overlappingrangeipreservations: "OverlappingRangeIPReservation",
} as const;

/** CustomResourceDefinitions that whereabouts needs. */
export function whereaboutsDefinitions(): readonly object[] {
  return Object.entries(KINDS).map(([plural, kind]) => definitionOf(plural, kind));
}

/**
 * The `ipam` section of a network with this range.
 * @param directory gets whereabouts' file
 */
export async function whereaboutsIpam(
  server: ApiServer,
  directory: string,
  range: string,
): Promise<Readonly<Record<string, unknown>>> {
  await mkdir(directory);
  const configurationPath = join(directory, "whereabouts.conf");
  const kubernetes = { kubeconfig: join(server.administrator, "admin.json") };
  await writeFile(configurationPath, JSON.stringify({ kubernetes }));
  return { type: "whereabouts", range, configuration_path: configurationPath, kubernetes };
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
