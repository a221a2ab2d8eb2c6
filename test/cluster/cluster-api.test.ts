// Cluster API's IPAM provider on a real API server, with the chart's rights and no others, and with Cluster API's own
// definitions where CLUSTER_API_CRDS names a directory with them.
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parse } from "yaml";
import { ADDRESS_SPACES } from "../../src/address-objects/resources.ts";
import { KubeApi } from "../../src/kube-api/client.ts";
import { describeClusterApi } from "../contract/cluster-api.ts";
import { type LabRun, openLabRun } from "../machine/lab-run.ts";
import { waitUntil } from "../machine/wait-until.ts";
import { clusterApiDefinitions } from "../stand-in/cluster-api/definitions.ts";
import { ApiServer } from "./api-server.ts";
import { kubernetesParts } from "./kubernetes-parts.ts";

const NAMESPACE = "kube-vhostuser";
const ACCOUNT = "kube-vhostuser-ipam-controller";
const DEFINITIONS = /ipaddress(es|claims)\.yaml$|x-k8s\.io_clusters\.yaml$/;

/** Cluster API's own, with all their versions, where they are given. */
async function definitionsOf(version: "v1beta1" | "v1beta2"): Promise<readonly object[]> {
  const directory = process.env["CLUSTER_API_CRDS"];
  if (directory === undefined) return clusterApiDefinitions(version);
  const files = (await readdir(directory)).filter((file) => DEFINITIONS.test(file));
  const read = async (file: string) => {
    const definition = parse(await readFile(join(directory, file), "utf8"));
    // An older Cluster API has no v1beta2.
    const versions = definition.spec.versions.filter(({ name }: { name: string }) => name <= version);
    versions.at(-1).storage = true;
    const annotations = { ...definition.metadata.annotations, "api-approved.kubernetes.io": "unapproved" };
    return {
      ...definition,
      metadata: { ...definition.metadata, annotations },
      spec: { ...definition.spec, versions },
    };
  };
  return Promise.all(files.map(read));
}

describe.skipIf(process.env["KUBECONFIG"]).each(["v1beta2", "v1beta1"] as const)(
  "Cluster API %s",
  (version) => {
    let run: LabRun;
    let server: ApiServer;
    const clients: KubeApi[] = [];

    beforeAll(async () => {
      run = await openLabRun({ narrator: { say: (line) => console.log(line) } });
      server = await ApiServer.start(run, kubernetesParts(process.env, ["etcd", "apiServer"]));
      await server.apply(
        { apiVersion: "v1", kind: "Namespace", metadata: { name: NAMESPACE } },
        { apiVersion: "v1", kind: "Node", metadata: { name: "n1" } },
        ...(await definitionsOf(version)),
      );
      const values = "--set ipam.enabled=true --set ipam.clusterApi.enabled=true";
      await server.sh(`helm install kube-vhostuser deploy/chart/kube-vhostuser -n ${NAMESPACE} ${values}`);
      await server.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s");
    });
    afterAll(async () => {
      for (const one of clients) one.close();
      await run?.close();
    });

    const client = (serviceAccountDirectory: string) => {
      const api = new KubeApi({ url: server.url, serviceAccountDirectory, deadlineMs: 60_000 });
      clients.push(api);
      return api;
    };

    describeClusterApi("a kube-apiserver with etcd", async () => {
      await server.apply({
        ...{ apiVersion: "v1", kind: "Pod", metadata: { name: "controller", namespace: NAMESPACE } },
        spec: { nodeName: "n1", serviceAccountName: ACCOUNT, containers: [{ name: "main", image: "none" }] },
      });
      const directory = await server.serviceAccountOf({
        namespace: NAMESPACE,
        name: "controller",
        account: ACCOUNT,
      });
      const [admin, controller] = [client(server.administrator), client(directory)];
      // The policy of blocks' sizes knows a space some moments after it was made.
      const { signal } = run.cleanup;
      await waitUntil(async () => (await admin.list(ADDRESS_SPACES, {}, signal)) !== undefined, {
        what: "the definitions are served",
      });
      return {
        ...{ admin, controller, version },
        addNamespace: (name) =>
          admin.create({ group: "", version: "v1", plural: "namespaces" }, { metadata: { name } }, signal),
        close: async () => undefined,
      };
    });

    it("needs no right that the chart does not give it, and writes nothing that is refused as wrong", async () => {
      const requests = await server.requestsOf(`system:serviceaccount:${NAMESPACE}:${ACCOUNT}`);
      expect(requests.length).toBeGreaterThan(0);
      const refused = requests.filter(({ responseStatus }) =>
        [401, 403, 422].includes(responseStatus?.code ?? 0),
      );
      expect(refused).toEqual([]);
    });
  },
);
