// Writes test/fixtures/kubernetes/schemas.json: what a Kubernetes API server says of the kinds that deploy/ uses. Run it
// with a kubectl that reaches a cluster of the release that the tests are to hold manifests to: any empty one will do.
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { programOf } from "../src/command-line/program.ts";

programOf(
  "node scripts/kubernetes-schemas.ts",
  "Writes test/fixtures/kubernetes/schemas.json from the cluster that kubectl reaches.",
).parse();

const FILE = resolve(import.meta.dirname, "../test/fixtures/kubernetes/schemas.json");
const PREFIX = "#/components/schemas/";

/** Paths of the API server's documents, and the kinds that are taken from each. */
const KINDS: Readonly<Record<string, readonly string[]>> = {
  "api/v1": ["Namespace", "ServiceAccount", "ConfigMap", "Service", "Pod"],
  "apis/apps/v1": ["DaemonSet", "Deployment", "StatefulSet"],
  "apis/apiextensions.k8s.io/v1": ["CustomResourceDefinition"],
  "apis/rbac.authorization.k8s.io/v1": ["Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"],
  "apis/networking.k8s.io/v1": ["NetworkPolicy"],
  "apis/admissionregistration.k8s.io/v1": [
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
  ],
  "apis/resource.k8s.io/v1": ["DeviceClass", "ResourceClaim", "ResourceClaimTemplate"],
};

interface Schema {
  readonly [key: string]: unknown;
  readonly "x-kubernetes-group-version-kind"?: readonly { group: string; version: string; kind: string }[];
}

/** What validation ignores. */
const LEFT_OUT = new Set(["description", "default", "example", "x-kubernetes-group-version-kind"]);

const get = (path: string): unknown =>
  JSON.parse(execFileSync("kubectl", ["get", "--raw", path], { encoding: "utf8", maxBuffer: 1 << 28 }));

const taken: Record<string, unknown> = {};
const kinds: Record<string, string> = {};

/** Takes a schema and all that it refers to. */
function take(name: string, all: Readonly<Record<string, Schema>>): void {
  if (taken[name] !== undefined) return;
  taken[name] = {};
  taken[name] = trimmed(all[name] ?? {}, all);
}

function trimmed(value: unknown, all: Readonly<Record<string, Schema>>): unknown {
  if (Array.isArray(value)) return value.map((one) => trimmed(one, all));
  if (typeof value !== "object" || value === null) return value;
  const { $ref: reference } = value as { readonly $ref?: unknown };
  if (typeof reference === "string") {
    take(reference.slice(PREFIX.length), all);
    return { $ref: `#/$defs/${reference.slice(PREFIX.length)}` };
  }
  const entries = Object.entries(value).flatMap(([key, one]) => {
    // A property may have the name of a keyword.
    if (key === "properties") {
      const properties = Object.entries(one as object).map(([name, each]) => [name, trimmed(each, all)]);
      return [[key, Object.fromEntries(properties)]];
    }
    return LEFT_OUT.has(key) ? [] : [[key, trimmed(one, all)]];
  });
  return Object.fromEntries(entries);
}

const { gitVersion } = get("/version") as { readonly gitVersion: string };
for (const [path, wanted] of Object.entries(KINDS)) {
  const document = get(`/openapi/v3/${path}`) as { components: { schemas: Record<string, Schema> } };
  const { schemas } = document.components;
  for (const kind of wanted) {
    const version = path.replace(/^apis?\//, "");
    const found = Object.entries(schemas).find(([, schema]) =>
      schema["x-kubernetes-group-version-kind"]?.some(
        (one) => one.kind === kind && `${one.group === "" ? "" : `${one.group}/`}${one.version}` === version,
      ),
    );
    if (found === undefined) throw new Error(`the API server has no ${kind} of ${version}`);
    take(found[0], schemas);
    kinds[`${version} ${kind}`] = found[0];
  }
}
const lines = Object.entries(taken)
  .sort(([one], [other]) => (one < other ? -1 : 1))
  .map(([name, schema]) => `    ${JSON.stringify(name)}: ${JSON.stringify(schema)}`);
const text = `{
  "kubernetes": ${JSON.stringify(gitVersion)},
  "kinds": ${JSON.stringify(kinds, null, 4).replace(/}$/, "  }")},
  "$defs": {
${lines.join(",\n")}
  }
}
`;
writeFileSync(FILE, text);
console.log(`${FILE}: ${lines.length} schemas of Kubernetes ${gitVersion}, ${text.length} bytes`);
