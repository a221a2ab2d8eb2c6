import { readdir, readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import manifest from "../../package.json" with { type: "json" };
import { kubernetesTools } from "../../test/machine/kubernetes-tools.ts";
import { runProgram } from "../../test/machine/run-program.ts";

const TOP = resolve(import.meta.dirname, "../..");
const NAMESPACE = "kube-vhostuser";
const OUR_IMAGE = /(ghcr\.io\/kube-vhostuser\/kube-vhostuser:)[\w.-]+/g;

/** Where the chart is. */
export const CHART = join(TOP, "deploy/chart/kube-vhostuser");

const HEADER = `# kube-vhostuser as the Helm chart makes it with its own values, written by \`npm run manifests\`: change the chart, not
# this file. docs/install.md says how to use it, and what to change where the nodes differ.
`;

const OF_CHART = "# Written by `npm run manifests`: change the chart, not this file.\n";

/**
 * What the chart makes of values without the objects of `helm test`, as Helm prints it.
 * @param values as JSON, on top of the chart's own
 * @throws Failure with Helm's words where it refuses them
 */
export async function renderChart(
  values: Readonly<Record<string, unknown>> = {},
  chart = CHART,
): Promise<string> {
  return await template(values, chart, "--skip-tests");
}

/** What `helm test` makes for a while: everything of the chart that is a hook. */
export async function renderTest(values: Readonly<Record<string, unknown>> = {}): Promise<string> {
  return await template(values, CHART, "--show-only", "templates/tests/test.yaml");
}

async function template(
  values: Readonly<Record<string, unknown>>,
  chart: string,
  ...options: readonly string[]
): Promise<string> {
  const { helm } = await kubernetesTools();
  const release = ["template", "kube-vhostuser", chart, "--namespace", NAMESPACE];
  const args = [...release, "--values", "-", ...options];
  const { stdout } = await runProgram(helm, args, { input: JSON.stringify(values) });
  return stdout;
}

/** Files that name the release, with the one of package.json in them; to be written before anything is rendered. */
export async function stampedFiles(): Promise<Readonly<Record<string, string>>> {
  const { version } = manifest;
  const chart = "deploy/chart/kube-vhostuser/Chart.yaml";
  const files: Record<string, string> = {
    [chart]: (await read(chart))
      .replace(/^version: .*$/m, `version: ${version}`)
      .replace(/^appVersion: .*$/m, `appVersion: "${version}"`),
  };
  const [major, minor] = version.split(".");
  files["deploy/cluster-api/metadata.yaml"] = (await read("deploy/cluster-api/metadata.yaml"))
    .replace(/major: .*/, `major: ${major}`)
    .replace(/minor: .*/, `minor: ${minor}`);
  for (const name of await readdir(join(TOP, "deploy/kubevirt"))) {
    const file = `deploy/kubevirt/${name}`;
    files[file] = (await read(file)).replace(OUR_IMAGE, `$1${version}`);
  }
  return files;
}

const read = (file: string) => readFile(join(TOP, file), "utf8");

/**
 * Files that are made of others, by their path in the project: the plain manifests, OpenShift's constraints, and the
 * chart's copies of the policies in deploy/kubevirt (a chart cannot reach a file outside of it).
 */
export async function renderedFiles(): Promise<Readonly<Record<string, string>>> {
  const files: Record<string, string> = {};
  for (const name of await readdir(join(TOP, "deploy/kubevirt"))) {
    // KubeVirt's own object is the cluster's, and no chart's to change.
    if (name === "kubevirt-cr.yaml") continue;
    files[`deploy/chart/kube-vhostuser/files/kubevirt/${name}`] = await read(`deploy/kubevirt/${name}`);
  }
  const text = await renderChart({ namespace: { create: true } });
  files["deploy/manifests/kube-vhostuser.yaml"] = HEADER + tidied(text);
  const documents = tidied(await renderChart({ openshift: { enabled: true } })).split(/^---\n/m);
  const constraints = documents.filter((one) => /^kind: SecurityContextConstraints$/m.test(one));
  files["deploy/overlays/openshift/scc.yaml"] = OF_CHART + constraints.join("---\n");
  files["deploy/cluster-api/ipam-components.yaml"] = OF_CHART + (await renderProvider());
  return files;
}

/** Kinds and names of what is installed by clusterctl: IPAM's definitions and policies, and its controller. */
const OF_PROVIDER =
  /^kind: (CustomResourceDefinition|ValidatingAdmissionPolicy\w*)$|^ {2}name: kube-vhostuser-ipam-controller$/m;

/** The components of the IPAM provider for Cluster API (clusterctl's contract): one namespace, and a container `manager`. */
async function renderProvider(): Promise<string> {
  const values = { ipam: { enabled: true, clusterApi: { enabled: true } } };
  const documents = tidied(await renderChart(values))
    .split(/^---\n/m)
    .filter((one) => OF_PROVIDER.test(one))
    .map((one) => one.replace("- name: ipam-controller\n", "- name: manager\n"));
  const namespace = `apiVersion: v1\nkind: Namespace\nmetadata:\n  name: ${NAMESPACE}\n`;
  return [namespace, ...documents].join("---\n");
}

/** Without the names of templates, and blank lines that their conditions leave. */
function tidied(text: string): string {
  return text
    .replace(/^# Source: .*\n/gm, "")
    .replace(/[ \t]+$/gm, "")
    .replace(/\n{2,}/g, "\n");
}
