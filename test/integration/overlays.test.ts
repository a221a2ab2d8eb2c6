import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { renderChart } from "../../scripts/build/render-manifests.ts";
import { kubernetesTools } from "../machine/kubernetes-tools.ts";
import { runProgram } from "../machine/run-program.ts";
import { openManifestCheck } from "../manifests/check-manifest.ts";
import { DEPLOY, type Manifest, parseManifests } from "../manifests/manifest.ts";

type Values = Readonly<Record<string, unknown>>;
const check = openManifestCheck();

describe("deploy/overlays", () => {
  /** The chart's values that make the same objects. */
  const SAME: Readonly<Record<string, Values>> = {
    openshift: { openshift: { enabled: true } },
    "ovs-on-host": {},
    "ovs-in-pod": {},
    vpp: {
      nodeSelector: { "kube-vhostuser/switch": "vpp" },
      config: {
        // Only what differs from the chart's own pool.
        pools: {
          sockets: {
            dataplane: { type: "vpp", apiSocket: "/run/vpp/api.sock", bridge: "1" },
          },
        },
      },
    },
  };

  it.each(Object.entries(SAME))("%s is what the chart makes of its values", async (name, values) => {
    const directory = join(DEPLOY, "overlays", name);
    const { kubectl } = await kubernetesTools();
    const { stdout } = await runProgram(kubectl, ["kustomize", directory]);
    const built = parseManifests(stdout, name);
    for (const one of built) expect(check(one), `${one.kind} ${one.metadata.name}`).toEqual([]);
    const ours = built.filter((one) => /^kube-vhostuser(-\w+)?$/.test(one.metadata.name));
    const wanted = parseManifests(await renderChart({ ...values, namespace: { create: true } }), "helm");
    expect(comparable(ours)).toEqual(comparable(wanted));
  });

  /** By kind; the configuration as what it says, without its checksum, and named lists in the order of their names. */
  function comparable(manifests: readonly Manifest[]): Record<string, unknown> {
    return Object.fromEntries(manifests.map((one) => [one.kind, plain(one)]));
  }

  function plain(one: Manifest): unknown {
    if (one.kind === "ConfigMap") return parse(one["data"]["config.yaml"]);
    if (one.kind !== "DaemonSet") return one;
    const copy = structuredClone(one);
    const { spec, metadata } = copy["spec"].template;
    delete metadata.annotations["checksum/config"];
    const byName = (a: { name: string }, b: { name: string }) => (a.name < b.name ? -1 : 1);
    spec.volumes.sort(byName);
    const configMap = spec.volumes.find(({ name }: { name: string }) => name === "config").configMap;
    // kustomize adds a hash, which a changed configuration changes.
    configMap.name = configMap.name.replace(/^(kube-vhostuser)-\w+$/, "$1");
    for (const { volumeMounts } of spec.containers) volumeMounts.sort(byName);
    return copy;
  }
});
