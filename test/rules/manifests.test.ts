import { readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { describe, expect, it } from "vitest";
import { parse, stringify } from "yaml";
import { chartReadme } from "../../scripts/build/chart-readme.ts";
import { chartValuesJsonSchema, chartValuesSchema } from "../../scripts/build/chart-values-schema.ts";
import { parseConfig } from "../../src/config/load.ts";
import { NEEDED_CAPABILITIES } from "../../src/daemon/check-start.ts";
import { manifestFiles, readManifests, TOP, theOnly } from "../manifests/manifest.ts";
import { tokensOf } from "../manifests/privileges.ts";

const read = (file: string) => readFileSync(join(TOP, file), "utf8");
const manifests = readManifests(join(TOP, "deploy/manifests/kube-vhostuser.yaml"));
const pod = theOnly(manifests, "DaemonSet")["spec"].template.spec;
const [daemon] = pod.containers;
const [mountRoot, installCni] = pod.initContainers;
const files = manifestFiles();

describe("every manifest in deploy/", () => {
  it("has this release's image wherever it is ours", () => {
    const { version } = JSON.parse(read("package.json")) as { version: string };
    const ours = files.flatMap((file) =>
      [...readFileSync(file, "utf8").matchAll(/ghcr\.io\/kube-vhostuser\/[\w:./-]+/g)].map(
        ([image]) => image,
      ),
    );
    expect(new Set(ours)).toEqual(new Set([`ghcr.io/kube-vhostuser/kube-vhostuser:${version}`]));
    const chart = parse(read("deploy/chart/kube-vhostuser/Chart.yaml"));
    expect([chart.version, chart.appVersion]).toEqual([version, version]);
  });
});

describe("deploy/manifests", () => {
  it("gives the daemon the capabilities that it checks for, and docs/security.md explains each", () => {
    const names = Object.keys(NEEDED_CAPABILITIES);
    expect(daemon.securityContext.capabilities).toEqual({
      drop: ["ALL"],
      add: names.map((name) => name.replace("CAP_", "")),
    });
    const explained = [...read("docs/security.md").matchAll(/^\| `(CAP_\w+)` \|/gm)].map(([, name]) => name);
    expect(explained.sort()).toEqual(names.sort());
  });

  it("mounts nothing of the node's but directories", () => {
    expect([pod.hostNetwork, pod.hostPID, pod.hostIPC]).toEqual([undefined, undefined, undefined]);
    for (const { securityContext } of [daemon, installCni]) {
      expect(securityContext).toMatchObject({
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        seccompProfile: { type: "RuntimeDefault" },
      });
      expect(securityContext.privileged).toBeUndefined();
    }
    expect(installCni.securityContext.capabilities).toEqual({ drop: ["ALL"] });
  });

  it("gives it no right and no token at the API server", () => {
    expect(manifests.map(({ kind }) => kind).sort()).toEqual([
      "ConfigMap",
      "DaemonSet",
      "Namespace",
      "NetworkPolicy",
      "ServiceAccount",
    ]);
    expect(theOnly(manifests, "ServiceAccount")["automountServiceAccountToken"]).toBe(false);
    expect(tokensOf(pod)).toEqual([]);
    const kinds = files
      .filter((file) => relative(join(TOP, "deploy"), file).startsWith("overlays/"))
      .flatMap(readManifests)
      .map(({ kind }) => kind);
    expect(kinds.filter((kind) => /Role|Binding/.test(kind))).toEqual([]);
  });

  it("keeps VMs running: one node at a time, no second daemon beside the first, not evicted, time to end", () => {
    expect(theOnly(manifests, "DaemonSet")["spec"].updateStrategy).toEqual({
      type: "RollingUpdate",
      rollingUpdate: { maxUnavailable: 1, maxSurge: 0 },
    });
    expect(pod.priorityClassName).toBe("system-node-critical");
    expect(pod.tolerations).toEqual([{ operator: "Exists" }]);
    // docs/cni.md: 30 s for a request's work, and its roll-back.
    expect(pod.terminationGracePeriodSeconds).toBeGreaterThan(40);
    expect(daemon.lifecycle).toBeUndefined();
  });

  it("carries the root's mount to the node from the privileged step, and from the node to the daemon", () => {
    const propagation = ({ volumeMounts }: { volumeMounts: { name: string; mountPropagation?: string }[] }) =>
      volumeMounts.find(({ name }) => name === "var-run-vhostuser")?.mountPropagation;
    expect([propagation(mountRoot), propagation(daemon)]).toEqual(["Bidirectional", "HostToContainer"]);
    expect(mountRoot.securityContext.privileged).toBe(true);
  });

  it("holds the configuration of deploy/config.yaml", () => {
    const { "config.yaml": text } = theOnly(manifests, "ConfigMap")["data"];
    expect(parse(text)).toEqual(parse(read("deploy/config.yaml")));
  });
});

describe("the configurations in deploy/", () => {
  it.each(
    ["deploy/config.yaml"].concat(
      ["openshift", "ovs-on-host", "vpp"].map((overlay) => `deploy/overlays/${overlay}/config.yaml`),
    ),
  )("%s is one that the daemon takes", (file) => {
    expect(parseConfig(read(file), file, "node-1").pools.length).toBeGreaterThan(0);
  });
});

describe("the chart", () => {
  it("has values that its schema accepts, and no value that the schema does not name", () => {
    const values = parse(read("deploy/chart/kube-vhostuser/values.yaml"));
    expect(chartValuesSchema.safeParse(values).error?.issues).toBeUndefined();
    expect(Object.keys(values).sort()).toEqual(
      Object.keys(chartValuesSchema.shape)
        .filter((key) => key !== "global")
        .sort(),
    );
  });

  it("accepts the values that docs/install.md shows", () => {
    const shown = [...read("docs/install.md").matchAll(/^```yaml\n(.*?)^```/gms)].map(([, yaml = ""]) =>
      parse(yaml),
    );
    expect(shown.length).toBeGreaterThan(0);
    for (const values of shown) {
      expect(chartValuesSchema.safeParse(values).error?.issues).toBeUndefined();
      expect(parseConfig(stringify(values.config), "docs/install.md", "node-1").pools).toHaveLength(1);
    }
  });

  it("has the schema and README that its sources say (else: npm run docs)", () => {
    expect(read("deploy/chart/kube-vhostuser/values.schema.json")).toBe(chartValuesJsonSchema());
    expect(read("deploy/chart/kube-vhostuser/README.md")).toBe(chartReadme());
  });

  it.each(["hotplug-warning", "plugin", "shared-links", "sidecar-claims"])(
    "has deploy/kubevirt's %s.yaml (else: npm run manifests)",
    (name) => {
      expect(read(`deploy/chart/kube-vhostuser/files/kubevirt/${name}.yaml`)).toBe(
        read(`deploy/kubevirt/${name}.yaml`),
      );
    },
  );
});
