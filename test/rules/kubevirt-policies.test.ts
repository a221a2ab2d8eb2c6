import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { parseAllDocuments } from "yaml";

const DIRECTORY = resolve(import.meta.dirname, "../../deploy/kubevirt");

interface Manifest {
  readonly file: string;
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string };
  // biome-ignore lint/suspicious/noExplicitAny: a manifest is what its kind says
  readonly spec: any;
}

const manifests: readonly Manifest[] = readdirSync(DIRECTORY)
  .filter((file) => file.endsWith(".yaml"))
  .flatMap((file) =>
    parseAllDocuments(readFileSync(join(DIRECTORY, file), "utf8")).map((one) => ({ file, ...one.toJS() })),
  );
const ofKind = (kind: string) => manifests.filter((one) => one.kind === kind);
const policies = ofKind("MutatingAdmissionPolicy");

/** What the API server and KubeVirt refuse, or answer every pod with an error for, and what no tool here evaluates. */
describe("deploy/kubevirt", () => {
  it.each(policies)(
    "$metadata.name is of the API that a cluster serves by default, and has a binding",
    (policy) => {
      expect(policy.apiVersion).toBe("admissionregistration.k8s.io/v1");
      const bindings = ofKind("MutatingAdmissionPolicyBinding").filter(({ file }) => file === policy.file);
      expect(bindings).toMatchObject([
        { apiVersion: policy.apiVersion, spec: { policyName: policy.metadata.name } },
      ]);
    },
  );

  it.each(policies)(
    "$metadata.name makes objects in its mutation only: variables know no Object",
    (policy) => {
      for (const { expression } of policy.spec.variables ?? []) expect(expression).not.toMatch(/\bObject\b/);
    },
  );

  it("the plugin's container mounts its part of the sockets' volume only, at the place of its socket", () => {
    const [plugin] = ofKind("Plugin");
    const name = plugin?.metadata.name ?? "";
    const [hook] = plugin?.spec.domainHooks ?? [];
    const policy = policies.find(
      (one) => one.metadata.name === plugin?.spec.mutatingAdmissionPolicies[0].name,
    );
    const expression: string = policy?.spec.mutations[0].jsonPatch.expression;
    const mount = /volumeMounts\{\s*name: "kubevirt-plugin-sockets",([^}]*)\}/.exec(expression)?.[1] ?? "";
    expect(mount).toContain(`mountPath: "/var/run/kubevirt-plugin/${name}"`);
    expect(mount).toContain(`subPath: "${name}"`);
    expect(hook.sidecar.socketPath).toMatch(new RegExp(`^/var/run/kubevirt-plugin/${name}/[^/]+$`));
    expect(expression).toContain(`value: "${hook.sidecar.socketPath}"`);
  });

  it("the plugin's condition has the names of KubeVirt's Go structs", () => {
    const [plugin] = ofKind("Plugin");
    expect(plugin?.spec.condition).toMatch(/^vmi(\.[A-Z][A-Za-z]*)+\.exists/);
  });
});
