import { delimiter, dirname, join } from "node:path";
import manifest from "../../package.json" with { type: "json" };
import { kubernetesTools } from "../machine/kubernetes-tools.ts";
import type { LabRun } from "../machine/lab-run.ts";
import { runProgram } from "../machine/run-program.ts";
import { KubernetesNode, type NodeOptions } from "./kubernetes-node.ts";
import { type KubernetesParts, kubernetesParts, PROJECT } from "./kubernetes-parts.ts";

/** Where `npm run image` and `npm run image -- --examples` write archives. */
export const IMAGE_DIRECTORY = join(PROJECT, "dist/image");
/** The archives. */
export const IMAGES = [
  `kube-vhostuser-${manifest.version}-${process.arch === "arm64" ? "arm64" : "amd64"}.oci.tar`,
  "example-ovs-dpdk.oci.tar",
  "example-testpmd.oci.tar",
];

/** The cluster that the tests run on, whichever it is. */
export interface Cluster {
  /** Runs a shell script in the project's directory, with kubectl and helm that know the cluster; gives what it prints. */
  sh(script: string): Promise<string>;
  /** Program and arguments that run a script like {@link sh}, for one that is talked to while it runs. */
  shell(script: string): readonly [program: string, ...args: readonly string[]];
  /** The node on this machine; undefined for the cluster that KUBECONFIG names, whose processes a test does not kill. */
  readonly node: KubernetesNode | undefined;
}

/**
 * Opens the cluster of KUBECONFIG, to which the reader has loaded the images, or starts a node and loads them.
 * @param parts of such a node that are not those of the environment; @param options of it, and which archives it gets
 * @throws Failure part-missing where there is neither
 */
export async function openCluster(
  run: LabRun,
  parts: Partial<KubernetesParts> = {},
  { images = IMAGES, ...options }: NodeOptions & { readonly images?: readonly string[] } = {},
): Promise<Cluster> {
  const { kubectl, helm } = await kubernetesTools();
  const path = [dirname(kubectl), dirname(helm), process.env["PATH"]].join(delimiter);
  const clusterOf = (
    enter: readonly string[],
    kubeconfig: string,
    node: KubernetesNode | undefined,
  ): Cluster => {
    const environment = [`PATH=${path}`, `KUBECONFIG=${kubeconfig}`];
    const shell: Cluster["shell"] = (script) => {
      const [program = "env", ...args] = [...enter, "env", ...environment, "sh", "-ec"];
      return [program, ...args, `cd ${PROJECT}\n${script}`];
    };
    const sh = async (script: string) => {
      const [program, ...args] = shell(script);
      return (await runProgram(program, args, { limitMs: 600_000 })).stdout;
    };
    return { sh, shell, node };
  };
  const kubeconfig = process.env["KUBECONFIG"];
  if (kubeconfig) return clusterOf([], kubeconfig, undefined);
  const node = await KubernetesNode.start(run, { ...kubernetesParts(process.env), ...parts }, options);
  for (const image of images) await node.importImage(join(IMAGE_DIRECTORY, image));
  return clusterOf(node.machine.entry, node.kubeconfig, node);
}
