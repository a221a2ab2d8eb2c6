import { join, relative } from "node:path";
import { describe, expect, it } from "vitest";
import { openManifestCheck } from "../manifests/check-manifest.ts";
import {
  type Manifest,
  manifestFiles,
  parseManifests,
  readManifests,
  TOP,
  theOnly,
} from "../manifests/manifest.ts";

const check = openManifestCheck();
const files = manifestFiles().map((file) => relative(TOP, file));
const example = (file: string, kind: string) =>
  theOnly(readManifests(join(TOP, "deploy/examples", file)), kind);

describe("every manifest in deploy/", () => {
  it.each(files)("%s is what the API server's schemas allow, with no field that they do not have", (file) => {
    const objects = readManifests(join(TOP, file));
    expect(objects.length).toBeGreaterThan(0);
    for (const object of objects) expect(check(object), `${object.kind} ${object.metadata.name}`).toEqual([]);
  });
});

describe("a manifest is refused", () => {
  const pod = example("dpdk-pod.yaml", "Pod");
  const changed = (change: (copy: Manifest) => void, manifest = pod) => {
    const copy = structuredClone(manifest);
    change(copy);
    return check(copy);
  };

  it("with a key that is misspelt, at any depth", () => {
    const misspelt = changed(({ spec }) => {
      spec.containers[0].securityContext.readOnlyRootFileSystem = true;
    });
    expect(misspelt).toEqual([
      "/spec/containers/0/securityContext has an unknown field readOnlyRootFileSystem",
    ]);
  });

  it("with a key that is misspelt in an object that is not Kubernetes' own", () => {
    const vm = example("vm.yaml", "VirtualMachine");
    const misspelt = changed(({ spec }) => {
      spec.template.spec.domain.devices.networkInterfaceMultiQueue = true;
    }, vm);
    expect(misspelt).toEqual([
      "/spec/template/spec/domain/devices has an unknown field networkInterfaceMultiQueue",
    ]);
  });

  it("with a value of another type, a field that is missing, or a kind that is not served", () => {
    const wrongType = changed(({ spec }) => {
      spec.hostNetwork = "true";
    });
    expect(wrongType).toEqual(["/spec/hostNetwork must be boolean"]);
    const missing = changed(({ spec }) => {
      spec.containers = undefined;
    });
    expect(missing.length).toBeGreaterThan(0);
    expect(check({ ...pod, apiVersion: "v2" })).toEqual(["no schema for v2 Pod"]);
  });

  it("with a duplicate key", () => {
    expect(() => parseManifests("kind: Pod\nkind: Pod\n", "twice.yaml")).toThrow(/twice.yaml: .*unique/);
  });
});
