// The IPAM controller and claims on a real API server, with the rights of the chart and no others.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Child } from "../machine/child.ts";
import { type LabRun, openLabRun } from "../machine/lab-run.ts";
import { waitUntilSucceeds } from "../machine/wait-until.ts";
import { ApiServer } from "./api-server.ts";
import { IPAM_CLAIM_DEFINITION, KUBEVIRT_DEFINITIONS, NETWORK_DEFINITION } from "./ipam-claim-definitions.ts";
import { NAMESPACE, startIpamProgram } from "./ipam-program.ts";
import { kubernetesParts } from "./kubernetes-parts.ts";

const ACCOUNT = "kube-vhostuser-ipam-controller";

describe.skipIf(process.env["KUBECONFIG"])("the IPAM controller with claims", () => {
  let run: LabRun;
  let server: ApiServer;
  let controller: Child;

  beforeAll(async () => {
    run = await openLabRun({ narrator: { say: (line) => console.log(line) } });
    server = await ApiServer.start(run, kubernetesParts(process.env, ["etcd", "apiServer"]));
    await server.apply(
      ...[NAMESPACE, "tests"].map((name) => ({ apiVersion: "v1", kind: "Namespace", metadata: { name } })),
      { apiVersion: "v1", kind: "Node", metadata: { name: "n1" } },
      ...[IPAM_CLAIM_DEFINITION, NETWORK_DEFINITION, ...KUBEVIRT_DEFINITIONS],
    );
    const values = ["enabled", "claims.enabled", "claims.manage"]
      .map((key) => `--set ipam.${key}=true`)
      .join(" ");
    await server.sh(`helm install kube-vhostuser deploy/chart/kube-vhostuser -n ${NAMESPACE} ${values}`);
    controller = await startIpamProgram(run, server, "ipam-controller", ["--claims", "--manage-claims"]);
    await until("the pool's kind is served", () =>
      apply("AddressPool", "blue", { subnets: [{ cidr: "10.0.0.0/24" }] }),
    );
    const config = {
      cniVersion: "1.1.0",
      name: "blue-network",
      type: "kube-vhostuser",
      allowPersistentIPs: true,
    };
    const ipam = { type: "kube-vhostuser-ipam", pools: ["blue"] };
    await until("networks are served", () =>
      server.apply({
        ...{ apiVersion: "k8s.cni.cncf.io/v1", kind: "NetworkAttachmentDefinition" },
        metadata: { name: "blue", namespace: "tests" },
        spec: { config: JSON.stringify({ ...config, ipam }) },
      }),
    );
  });
  afterAll(() => run?.close());

  const apply = (kind: string, name: string, spec: object) =>
    server.apply({ apiVersion: "ipam.kube-vhostuser.io/v1alpha1", kind, metadata: { name }, spec });
  const vmiSpec = {
    networks: [{ name: "red", multus: { networkName: "blue" } }],
    domain: { devices: { interfaces: [{ name: "red", binding: { name: "vhostuser" } }] } },
  };
  const until = (what: string, poll: () => Promise<unknown>): Promise<void> => {
    const waiting = waitUntilSucceeds(poll, { what, limitMs: 300_000, everyMs: 200 });
    return controller === undefined ? waiting : Promise.race([waiting, controller.died]);
  };
  const listed = async (...args: readonly string[]) =>
    JSON.parse(await server.kubectl("get", ...args, "--output", "json"));

  it("makes the claim of a VM and publishes its address", async () => {
    await until("KubeVirt's kinds are served", () =>
      server.apply({
        ...{
          apiVersion: "kubevirt.io/v1",
          kind: "VirtualMachine",
          metadata: { name: "vm1", namespace: "tests" },
        },
        spec: { template: { spec: vmiSpec } },
      }),
    );
    const { uid } = (await listed("-n", "tests", "virtualmachine", "vm1")).metadata;
    const owner = {
      apiVersion: "kubevirt.io/v1",
      kind: "VirtualMachine",
      name: "vm1",
      uid,
      controller: true,
    };
    await server.apply({
      ...{ apiVersion: "kubevirt.io/v1", kind: "VirtualMachineInstance" },
      metadata: { name: "vm1", namespace: "tests", ownerReferences: [owner] },
      ...{ spec: vmiSpec, status: { phase: "Scheduling" } },
    });
    await until("the claim has an address", async () => {
      const claim = await listed("-n", "tests", "ipamclaim", "vm1.red");
      expect(claim.status.ips).toEqual([expect.stringMatching(/^10\.0\.0\.\d+\/24$/)]);
      expect(claim.metadata.finalizers).toEqual(["kubevirt.io/persistent-ipam"]);
      expect(claim.status.conditions).toMatchObject([{ type: "IPsAllocated", status: "True" }]);
    });
  });

  it("lets the claim go with its VM, and frees the address", async () => {
    await server.kubectl("-n", "tests", "delete", "virtualmachineinstance", "vm1");
    await server.kubectl("-n", "tests", "delete", "virtualmachine", "vm1");
    // What the garbage collector does.
    await server.kubectl("-n", "tests", "delete", "ipamclaim", "vm1.red");
    await until("the address is free", async () =>
      expect((await listed("addressallocations")).items).toEqual([]),
    );
  });

  it("yields to kubevirt/ipam-extensions, and says so in an event", async () => {
    await server.apply({
      ...{ apiVersion: "admissionregistration.k8s.io/v1", kind: "MutatingWebhookConfiguration" },
      metadata: { name: "other" },
      webhooks: [
        {
          ...{ name: "ipam-claims.k8s.cni.cncf.io", admissionReviewVersions: ["v1"], sideEffects: "None" },
          clientConfig: { url: "https://127.0.0.1:1/mutate" },
          objectSelector: { matchLabels: { "kubevirt.io": "virt-launcher" } },
          rules: [{ apiGroups: [""], apiVersions: ["v1"], operations: ["CREATE"], resources: ["pods"] }],
        },
      ],
    });
    await until("the event is there", async () => {
      const { items } = await listed("events.events.k8s.io", "--all-namespaces");
      expect(items.map(({ reason }: { reason: string }) => reason)).toContain("ClaimsManagedElsewhere");
    });
  });

  it("needs no right that the chart does not give it", async () => {
    const requests = await server.requestsOf(`system:serviceaccount:${NAMESPACE}:${ACCOUNT}`);
    const refused = requests.filter(({ responseStatus }) =>
      [401, 403, 422].includes(responseStatus?.code ?? 0),
    );
    expect(refused).toEqual([]);
    expect(requests.length).toBeGreaterThan(0);
  });
});
