import { existsSync, readdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { Failure } from "../../src/failure/failure.ts";

/** A directory with a release of KubeVirt: `operator.yaml`, `virtctl`, and `images` with an OCI archive of each image. */
export const KUBEVIRT_VARIABLE = "KUBEVIRT_DIR";
const README = "test/cluster/README.md";

/** KubeVirt as its user provides it, as absolute paths. */
export interface KubeVirtParts {
  /** The operator's manifest, with KubeVirt's definitions. */
  readonly operator: string;
  readonly virtctl: string;
  /** Archives of all images that operator and KubeVirt use, under the names that the manifest has. */
  readonly images: readonly string[];
}

/**
 * Reads {@link KUBEVIRT_VARIABLE}.
 * @throws Failure part-missing with all that is missing, and where KUBECONFIG names a cluster
 */
export function kubeVirtParts(env: Readonly<NodeJS.ProcessEnv>): KubeVirtParts {
  if (env["KUBECONFIG"]) {
    throw new Failure({
      code: "part-missing",
      what: "the tests with KubeVirt need the nodes' processes and networks, which the cluster of KUBECONFIG does not give",
      where: "the environment",
      fix: `unset KUBECONFIG: the tests start two nodes on this machine (${README})`,
    });
  }
  const directory = env[KUBEVIRT_VARIABLE] ?? "";
  const path = (name: string) => resolve(directory, name);
  const missing = ["operator.yaml", "virtctl", "images"].filter((name) => !existsSync(path(name)));
  const images = existsSync(path("images"))
    ? readdirSync(path("images")).filter((name) => name.endsWith(".tar"))
    : [];
  if (directory !== "" && missing.length === 0 && images.length > 0) {
    const archives = images.map((name) => join(path("images"), name));
    return { operator: path("operator.yaml"), virtctl: path("virtctl"), images: archives };
  }
  const lacks = missing.length === 0 ? "images/*.tar" : missing.join(", ");
  throw new Failure({
    code: "part-missing",
    what: directory === "" ? `${KUBEVIRT_VARIABLE} is not set` : `${directory} has no ${lacks}`,
    where: "the environment",
    fix: `${KUBEVIRT_VARIABLE}=DIRECTORY with operator.yaml, virtctl and images/*.tar of a KubeVirt release: ${README}`,
  });
}
