import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { LabRun } from "../machine/lab-run.ts";
import { apply } from "./claims-cluster.ts";
import { type Cluster, openCluster } from "./cluster.ts";
import { GUEST_IMAGE, writeGuestImage } from "./kubevirt-guest.ts";
import type { KubeVirtParts } from "./kubevirt-parts.ts";

/** Two nodes on this machine with a KubeVirt that emulates its VMs, and the VMs' image. */
export async function startKubeVirtNodes(
  run: LabRun,
  parts: NonNullable<KubeVirtParts["install"]>,
): Promise<Cluster> {
  const cluster = await openCluster(run, {}, { hasWorker: true, hasAggregation: true });
  const { node } = cluster;
  if (node === undefined) throw new Error("the nodes are on this machine");
  run.progress("KubeVirt: images");
  const directory = join(run.directory, "guest");
  for (const each of [await writeGuestImage(directory), ...parts.images]) await node.importImage(each);
  // A migration's target has its kernel by the digest that the source has, which is the one of the image's configuration.
  await node.tagImage(GUEST_IMAGE, `${GUEST_IMAGE.split(":")[0]}@${await configDigest(directory)}`);
  run.progress("KubeVirt: its operator and its parts");
  await cluster.sh(`
    kubectl label nodes --all node-role.kubernetes.io/control-plane=
    kubectl apply --server-side --filename ${parts.operator}
    kubectl -n kubevirt scale deployment/virt-operator --replicas=1
    kubectl wait crd/kubevirts.kubevirt.io --for=condition=Established --timeout=1m`);
  await apply(cluster, KUBEVIRT);
  await cluster.sh("kubectl -n kubevirt wait kubevirt/kubevirt --for=condition=Available --timeout=9m");
  return cluster;
}

const KUBEVIRT = {
  ...{ apiVersion: "kubevirt.io/v1", kind: "KubeVirt" },
  metadata: { name: "kubevirt", namespace: "kubevirt" },
  spec: {
    infra: { replicas: 1 },
    configuration: {
      // VM templates have API servers of their own, with images of another release.
      developerConfiguration: { useEmulation: true, disabledFeatureGates: ["Template"] },
    },
  },
};

/** Of the only image of the layout that {@link writeGuestImage} writes. */
async function configDigest(directory: string): Promise<string> {
  const read = async (path: string) => JSON.parse(await readFile(join(directory, "layout", path), "utf8"));
  const { digest } = (await read("index.json")).manifests[0];
  return (await read(`blobs/${digest.replace(":", "/")}`)).config.digest;
}
