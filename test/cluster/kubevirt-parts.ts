import { existsSync, readdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { Failure } from "../../src/failure/failure.ts";
import { GUEST_IMAGE_VARIABLE } from "./kubevirt-guest.ts";

/** A directory with a release of KubeVirt: `operator.yaml`, `virtctl`, and `images` with an OCI archive of each image. */
export const KUBEVIRT_VARIABLE = "KUBEVIRT_DIR";
const README = "test/cluster/README.md";

/** KubeVirt as its user provides it, as absolute paths. */
export interface KubeVirtParts {
  readonly virtctl: string;
  /** What the cluster of KUBECONFIG has already. */
  readonly install?: {
    /** The operator's manifest, with KubeVirt's definitions. */
    readonly operator: string;
    /** Archives of all images that operator and KubeVirt use, under the names that the manifest has. */
    readonly images: readonly string[];
  };
}

/**
 * Reads {@link KUBEVIRT_VARIABLE}, of which the cluster of KUBECONFIG needs `virtctl` only.
 * @throws Failure part-missing with all that is missing
 */
export function kubeVirtParts(env: Readonly<NodeJS.ProcessEnv>): KubeVirtParts {
  const directory = env[KUBEVIRT_VARIABLE] ?? "";
  const path = (name: string) => resolve(directory, name);
  const needed = env["KUBECONFIG"] ? ["virtctl"] : ["virtctl", "operator.yaml", "images"];
  const missing = needed.filter((name) => directory === "" || !existsSync(path(name)));
  if (missing.length > 0) {
    throw new Failure({
      code: "part-missing",
      what:
        directory === "" ? `${KUBEVIRT_VARIABLE} is not set` : `${directory} has no ${missing.join(", no ")}`,
      where: "the environment",
      fix: `${KUBEVIRT_VARIABLE}=DIRECTORY with ${needed.join(", ")} of a KubeVirt release: ${README}`,
    });
  }
  const virtctl = path("virtctl");
  if (env["KUBECONFIG"] && !env[GUEST_IMAGE_VARIABLE]) {
    throw new Failure({
      code: "part-missing",
      what: `${GUEST_IMAGE_VARIABLE} is not set`,
      where: "the environment",
      fix: `push dist/image/guest/image.oci.tar to a registry of the cluster, and give its name: ${README}`,
    });
  }
  if (env["KUBECONFIG"]) return { virtctl };
  const archives = readdirSync(path("images")).filter((name) => name.endsWith(".tar"));
  const images = archives.map((name) => join(path("images"), name));
  return { virtctl, install: { operator: path("operator.yaml"), images } };
}
