// clusterctl installs our provider beside Cluster API's definitions, and moves a cluster with its addresses to another API server.
import { cp, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Child } from "../machine/child.ts";
import { type LabRun, openLabRun } from "../machine/lab-run.ts";
import { runProgram } from "../machine/run-program.ts";
import { waitUntilSucceeds } from "../machine/wait-until.ts";
import { ApiServer } from "./api-server.ts";
import { startIpamProgram } from "./ipam-program.ts";
import { CLUSTERCTL_VARIABLE, CORE_PROVIDER_VARIABLE, kubernetesParts, PROJECT } from "./kubernetes-parts.ts";

const CLUSTERCTL = process.env[CLUSTERCTL_VARIABLE];
/** With core-components.yaml and metadata.yaml. */
const CORE = process.env[CORE_PROVIDER_VARIABLE];
const CLAIMS = ["m-0", "m-1", "m-2"];

/** What a management cluster is here: no pods run, so that neither cert-manager nor Cluster API's webhooks answer. */
interface Management {
  readonly run: LabRun;
  readonly server: ApiServer;
  readonly controller: Child;
}

describe.skipIf(process.env["KUBECONFIG"] || CLUSTERCTL === undefined || CORE === undefined)(
  "clusterctl",
  () => {
    const runs: LabRun[] = [];
    let source: Management;
    let target: Management;

    beforeAll(async () => {
      source = await install();
      target = await install();
    });
    afterAll(async () => {
      for (const run of runs) await run.close();
    });

    async function install(): Promise<Management> {
      const run = await openLabRun({ narrator: { say: (line) => console.log(line) } });
      runs.push(run);
      const server = await ApiServer.start(run, kubernetesParts(process.env, ["etcd", "apiServer"]));
      await server.apply(
        ...["Issuer", "Certificate"].map(certManagerDefinition),
        ...["tests", "kube-system", "default"].map((name) => ({
          ...{ apiVersion: "v1", kind: "Namespace" },
          metadata: { name },
        })),
        { apiVersion: "v1", kind: "Node", metadata: { name: "n1" } },
      );
      await server.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s");
      const repository = join(run.directory, "repository");
      const [core, ipam] = [
        join(repository, "cluster-api/v1.14.0"),
        join(repository, "ipam-kube-vhostuser/v0.1.0"),
      ];
      for (const directory of [core, ipam]) await mkdir(directory, { recursive: true });
      await cp(CORE ?? "", core, { recursive: true });
      await cp(join(PROJECT, "deploy/cluster-api"), ipam, { recursive: true });
      const providers = [
        { name: "cluster-api", type: "CoreProvider", url: join(core, "core-components.yaml") },
        { name: "kube-vhostuser", type: "IPAMProvider", url: join(ipam, "ipam-components.yaml") },
      ];
      await writeFile(join(run.directory, "clusterctl.yaml"), JSON.stringify({ providers }));
      await clusterctl(
        { run, server },
        ...["init", "--core", "cluster-api:v1.14.0", "--bootstrap", "-", "--control-plane", "-"],
        ...["--ipam", "kube-vhostuser"],
      );
      await server.kubectl(
        "delete",
        "validatingwebhookconfigurations,mutatingwebhookconfigurations",
        "--all",
      );
      return {
        run,
        server,
        controller: await startIpamProgram(run, server, "ipam-controller", ["--cluster-api"]),
      };
    }

    async function clusterctl(
      { run, server }: Pick<Management, "run" | "server">,
      ...args: readonly string[]
    ): Promise<string> {
      const kubeconfig = ["--kubeconfig", join(server.administrator, "admin.json")];
      const config = ["--config", join(run.directory, "clusterctl.yaml")];
      const env = { HOME: run.directory, CLUSTERCTL_DISABLE_VERSIONCHECK: "true" };
      return (
        await runProgram(CLUSTERCTL ?? "", [...args, ...kubeconfig, ...config], { env, limitMs: 300_000 })
      ).stdout;
    }

    const until = (what: string, poll: () => Promise<unknown>): Promise<void> =>
      Promise.race([
        waitUntilSucceeds(poll, { what, limitMs: 120_000, everyMs: 200 }),
        ...[source, target].map(({ controller }) => controller.died),
      ]);
    const listed = async ({ server }: Management, plural: string) =>
      JSON.parse(await server.kubectl("-n", "tests", "get", plural, "--output", "json")).items;
    /** Address of each claim that is ready. */
    const addresses = async (management: Management): Promise<Record<string, string>> => {
      const ready = (await listed(management, "ipaddressclaims.ipam.cluster.x-k8s.io"))
        .filter(({ status }: { status?: { addressRef?: object } }) => status?.addressRef !== undefined)
        .map(({ metadata }: { metadata: { name: string } }) => metadata.name);
      const all = await listed(management, "ipaddresses.ipam.cluster.x-k8s.io");
      return Object.fromEntries(
        all
          .filter(({ metadata }: { metadata: { name: string } }) => ready.includes(metadata.name))
          .map(({ metadata, spec }: { metadata: { name: string }; spec: { address: string } }) => [
            metadata.name,
            spec.address,
          ]),
      );
    };

    it("installs the provider, which serves claims with the rights of its components", async () => {
      const { server } = source;
      const cluster = { apiVersion: "cluster.x-k8s.io/v1beta2", kind: "Cluster" };
      await server.apply({
        ...cluster,
        metadata: { name: "c", namespace: "tests" },
        // One that has only `paused` would be empty without it, which is refused.
        spec: { controlPlaneEndpoint: { host: "c.example", port: 6443 } },
      });
      const { uid } = (await listed(source, "clusters.cluster.x-k8s.io"))[0].metadata;
      const labels = { "cluster.x-k8s.io/cluster-name": "c" };
      await server.apply(
        {
          ...{ apiVersion: "ipam.kube-vhostuser.io/v1alpha1", kind: "NamespacedAddressPool" },
          metadata: { name: "machines", namespace: "tests", labels },
          spec: { subnets: [{ cidr: "10.50.0.0/24", gateway: "10.50.0.1" }] },
        },
        ...CLAIMS.map((name) => ({
          ...{ apiVersion: "ipam.cluster.x-k8s.io/v1beta2", kind: "IPAddressClaim" },
          metadata: { name, namespace: "tests", labels, ownerReferences: [{ ...cluster, name: "c", uid }] },
          spec: {
            clusterName: "c",
            poolRef: { apiGroup: "ipam.kube-vhostuser.io", kind: "NamespacedAddressPool", name: "machines" },
          },
        })),
      );
      await until("the claims have addresses", async () =>
        expect(Object.keys(await addresses(source))).toEqual(CLAIMS),
      );
    });

    it("moves a cluster, whose pool and addresses are the same in the target and gone from the source", async () => {
      const before = await addresses(source);
      const lastTransitionTime = new Date().toISOString().replace(/\.\d+/, "");
      const condition = {
        type: "ControlPlaneInitialized",
        status: "True",
        reason: "Initialized",
        message: "",
        lastTransitionTime,
      };
      const status = { initialization: { infrastructureProvisioned: true }, conditions: [condition] };
      await source.server.kubectl(
        ...["-n", "tests", "patch", "clusters.cluster.x-k8s.io", "c", "--subresource=status", "--type=merge"],
        ...["--patch", JSON.stringify({ status })],
      );
      const to = join(target.server.administrator, "admin.json");
      await clusterctl(source, "move", "--namespace", "tests", "--to-kubeconfig", to);
      await until("the target has the addresses", async () =>
        expect(await addresses(target)).toEqual(before),
      );
      const owners = (await listed(target, "ipaddresses.ipam.cluster.x-k8s.io")).map(
        ({ metadata }: { metadata: { ownerReferences: { kind: string }[] } }) =>
          metadata.ownerReferences.map(({ kind }) => kind).sort(),
      );
      expect(owners).toEqual(CLAIMS.map(() => ["IPAddressClaim", "NamespacedAddressPool"]));
      await until("the target has allocated them", async () => {
        const allocated = (await listed(target, "addressallocations")).map(
          ({ spec }: { spec: { address: string } }) => spec.address,
        );
        expect(allocated.toSorted()).toEqual(Object.values(before).toSorted());
      });
      for (const plural of ["ipaddressclaims.ipam.cluster.x-k8s.io", "ipaddresses.ipam.cluster.x-k8s.io"])
        expect(await listed(source, plural)).toEqual([]);
      expect(await listed(source, "namespacedaddresspools")).toEqual([]);
    });

    it("a claim that is made in the target gets another address of the pool", async () => {
      const [moved] = await listed(target, "ipaddressclaims.ipam.cluster.x-k8s.io");
      const { labels } = moved.metadata;
      await target.server.apply({
        ...{ apiVersion: moved.apiVersion, kind: moved.kind, spec: moved.spec },
        metadata: { name: "m-3", namespace: "tests", labels },
      });
      await until("it has an address", async () =>
        expect(new Set(Object.values(await addresses(target))).size).toBe(CLAIMS.length + 1),
      );
    });
  },
);

/** clusterctl installs no cert-manager where the API server takes its objects. */
function certManagerDefinition(kind: string): object {
  const plural = `${kind.toLowerCase()}s`;
  const schema = { openAPIV3Schema: { type: "object", "x-kubernetes-preserve-unknown-fields": true } };
  return {
    ...{ apiVersion: "apiextensions.k8s.io/v1", kind: "CustomResourceDefinition" },
    metadata: { name: `${plural}.cert-manager.io` },
    spec: {
      ...{ group: "cert-manager.io", scope: "Namespaced" },
      names: { plural, kind, singular: kind.toLowerCase() },
      versions: [{ name: "v1", served: true, storage: true, schema }],
    },
  };
}
