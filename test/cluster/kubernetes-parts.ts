import { accessSync, constants } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { Failure } from "../../src/failure/failure.ts";

/** What a Kubernetes node consists of, as absolute paths. */
export interface KubernetesParts {
  readonly kubelet: string;
  readonly apiServer: string;
  readonly controllerManager: string;
  readonly scheduler: string;
  readonly etcd: string;
  /** Its shim (containerd-shim-runc-v2) is beside it. */
  readonly containerd: string;
  readonly ctr: string;
  readonly runc: string;
  /** The executable of thin Multus. */
  readonly multus: string;
  /** With bridge, loopback and host-local. */
  readonly cniPlugins: string;
}

/** Optional: a directory with multus-daemon, multus-shim, install_multus, passthru and Multus' multus-daemonset-thick.yml. */
export const MULTUS_THICK_VARIABLE = "MULTUS_THICK_DIR";

/** Optional: the executable of a thin Multus that reads ResourceClaims of resource.k8s.io/v1, newer than 4.3.0. */
export const MULTUS_CLAIMS_VARIABLE = "MULTUS_CLAIMS_BIN";

/** Optional: the executable of whereabouts. */
export const WHEREABOUTS_VARIABLE = "WHEREABOUTS_BIN";

/** Optional: the executable of kubevirt/ipam-extensions. */
export const IPAM_EXTENSIONS_VARIABLE = "IPAM_EXTENSIONS_BIN";

/** Optional: clusterctl, and a directory with core-components.yaml and metadata.yaml of its Cluster API. */
export const CLUSTERCTL_VARIABLE = "CLUSTERCTL_BIN";
export const CORE_PROVIDER_VARIABLE = "CLUSTER_API_DIR";

/** Environment variables, each with the path of a part. */
export const PART_VARIABLES: Readonly<Record<keyof KubernetesParts, string>> = {
  kubelet: "KUBELET_BIN",
  apiServer: "KUBE_APISERVER_BIN",
  controllerManager: "KUBE_CONTROLLER_MANAGER_BIN",
  scheduler: "KUBE_SCHEDULER_BIN",
  etcd: "ETCD_BIN",
  containerd: "CONTAINERD_BIN",
  ctr: "CTR_BIN",
  runc: "RUNC_BIN",
  multus: "MULTUS_BIN",
  cniPlugins: "CNI_PLUGINS_DIR",
};

/**
 * Reads the variables of the parts that are needed, by default of all.
 * @throws Failure part-missing with all that are missing or name no program
 */
export function kubernetesParts<Part extends keyof KubernetesParts = keyof KubernetesParts>(
  env: Readonly<NodeJS.ProcessEnv>,
  needed: readonly Part[] = Object.keys(PART_VARIABLES) as Part[],
): Pick<KubernetesParts, Part> {
  const missing: string[] = [];
  const path = (variable: string) => {
    const value = env[variable] ?? "";
    try {
      accessSync(value, constants.X_OK);
    } catch {
      missing.push(value === "" ? variable : `${variable}=${value} (no program)`);
    }
    return resolve(value);
  };
  const parts = Object.fromEntries(
    needed.map((part) => [part, path(PART_VARIABLES[part])]),
  ) as unknown as Pick<KubernetesParts, Part>;
  if (missing.length === 0) return parts;
  throw new Failure({
    code: "part-missing",
    what: `no cluster to test on; missing: ${missing.join(", ")}`,
    where: "the environment",
    fix:
      "KUBECONFIG=FILE npm run test:cluster for a cluster that you have, or the variables above with the paths of" +
      " Kubernetes' and containerd's programs for a node on this machine: test/cluster/README.md",
  });
}

/** containerd's shim, which it finds in PATH. */
export const shimDirectory = ({ containerd }: Pick<KubernetesParts, "containerd">): string =>
  dirname(containerd);

/** The project's directory. */
export const PROJECT = join(import.meta.dirname, "../..");
