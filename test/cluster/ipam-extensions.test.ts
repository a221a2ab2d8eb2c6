// The real kubevirt/ipam-extensions and our IPAM on a real API server: its webhook and controller make references and claims.
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { compileShim } from "../../scripts/build/compile-shim.ts";
import { VMI_INTERFACE_LABEL } from "../../src/claims/resources.ts";
import { hashedPodInterfaceName } from "../../src/names/interface-name.ts";
import { type Child, startChild } from "../machine/child.ts";
import { freePort } from "../machine/free-port.ts";
import { type LabRun, openLabRun } from "../machine/lab-run.ts";
import { waitUntilSucceeds } from "../machine/wait-until.ts";
import { startShim } from "../shim/run-shim.ts";
import { selfSigned } from "../stand-in/api-server/self-signed.ts";
import { ApiServer } from "./api-server.ts";
import { IPAM_CLAIM_DEFINITION, KUBEVIRT_DEFINITIONS, NETWORK_DEFINITION } from "./ipam-claim-definitions.ts";
import { NAMESPACE, startIpamProgram } from "./ipam-program.ts";
import { IPAM_EXTENSIONS_VARIABLE, kubernetesParts } from "./kubernetes-parts.ts";

const EXTENSIONS = process.env[IPAM_EXTENSIONS_VARIABLE];
/** Its options do not include the webhook's port. */
const WEBHOOK = "https://127.0.0.1:9443/mutate-v1-pod";
const CONFIG = {
  ...{ cniVersion: "1.1.0", name: "blue-network", type: "kube-vhostuser", allowPersistentIPs: true },
  ipam: { type: "kube-vhostuser-ipam", pools: ["blue"] },
};
const IFNAME = hashedPodInterfaceName("red");

describe.skipIf(process.env["KUBECONFIG"] || EXTENSIONS === undefined)(
  "beside kubevirt/ipam-extensions",
  () => {
    let run: LabRun;
    let server: ApiServer;
    let executable: string;
    let extensions: Child;
    const ours: Child[] = [];

    beforeAll(async () => {
      run = await openLabRun({ narrator: { say: (line) => console.log(line) } });
      executable = await compileShim({
        executable: "kube-vhostuser-ipam",
        output: join(run.directory, "ipam"),
      });
      server = await ApiServer.start(run, kubernetesParts(process.env, ["etcd", "apiServer"]));
      await server.apply(
        ...[NAMESPACE, "tests"].map((name) => ({ apiVersion: "v1", kind: "Namespace", metadata: { name } })),
        { apiVersion: "v1", kind: "Node", metadata: { name: "n1" } },
        { apiVersion: "v1", kind: "ServiceAccount", metadata: { name: "default", namespace: "tests" } },
        ...[IPAM_CLAIM_DEFINITION, NETWORK_DEFINITION, ...KUBEVIRT_DEFINITIONS],
      );
      const values = "ipam.enabled=true,ipam.claims.enabled=true,ipam.claims.manage=true";
      await server.sh(
        `helm install kube-vhostuser deploy/chart/kube-vhostuser -n ${NAMESPACE} --set ${values}`,
      );
      await server.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s");
      await server.apply(
        {
          ...{
            apiVersion: "ipam.kube-vhostuser.io/v1alpha1",
            kind: "AddressPool",
            metadata: { name: "blue" },
          },
          spec: { subnets: [{ cidr: "10.0.0.0/24" }] },
        },
        {
          ...{ apiVersion: "k8s.cni.cncf.io/v1", kind: "NetworkAttachmentDefinition" },
          metadata: { name: "blue", namespace: "tests" },
          spec: { config: JSON.stringify(CONFIG) },
        },
      );
      extensions = await startExtensions();
      ours.push(await startIpamProgram(run, server, "ipam-controller", ["--claims", "--manage-claims"]));
      const state = ["--state", join(run.directory, "state"), "--socket", join(run.directory, "ipam.sock")];
      const agent = [...state, "--netns", run.directory, "--claims", "managed"];
      ours.push(await startIpamProgram(run, server, "ipam-agent", agent));
    });
    afterAll(() => run?.close());

    /** With the webhook configuration of its release, which names a Service in place of the address. */
    async function startExtensions(): Promise<Child> {
      const { cert, key } = selfSigned();
      const directory = join(run.directory, "webhook");
      await mkdir(directory);
      await writeFile(join(directory, "tls.crt"), cert);
      await writeFile(join(directory, "tls.key"), key);
      const child = await startChild(run, {
        ...{ name: "ipam-extensions", command: EXTENSIONS ?? "" },
        args: [
          `--kubeconfig=${join(server.administrator, "admin.json")}`,
          `--certificates-dir=${directory}`,
          `--health-probe-bind-address=127.0.0.1:${await freePort()}`,
        ],
      });
      await server.apply({
        ...{ apiVersion: "admissionregistration.k8s.io/v1", kind: "MutatingWebhookConfiguration" },
        metadata: { name: "kubevirt-ipam-controller-mutating-webhook-configuration" },
        webhooks: [
          {
            ...{ name: "ipam-claims.k8s.cni.cncf.io", admissionReviewVersions: ["v1"], sideEffects: "None" },
            ...{ failurePolicy: "Fail", clientConfig: { url: WEBHOOK, caBundle: btoa(cert) } },
            objectSelector: { matchLabels: { "kubevirt.io": "virt-launcher" } },
            rules: [
              { apiGroups: [""], apiVersions: ["v1"], operations: ["CREATE", "UPDATE"], resources: ["pods"] },
            ],
          },
        ],
      });
      return child;
    }

    const until = (what: string, poll: () => Promise<unknown>): Promise<void> =>
      Promise.race([
        waitUntilSucceeds(poll, { what, limitMs: 300_000, everyMs: 200 }),
        ...ours.map(({ died }) => died),
      ]);
    const read = async (...args: readonly string[]) =>
      JSON.parse(await server.kubectl("-n", "tests", "get", ...args, "--output", "json"));
    const remove = (kind: string, name: string) =>
      server.kubectl("-n", "tests", "delete", kind, name, "--force", "--grace-period=0");

    async function startVm(name: string): Promise<void> {
      const spec = {
        networks: [{ name: "red", multus: { networkName: "blue" } }],
        domain: { devices: { interfaces: [{ name: "red", binding: { name: "vhostuser" } }] } },
      };
      const object = { apiVersion: "kubevirt.io/v1", metadata: { name, namespace: "tests" } };
      await server.apply({ ...object, kind: "VirtualMachine", spec: { template: { spec } } });
      const { uid } = (await read("virtualmachine", name)).metadata;
      const vm = { apiVersion: "kubevirt.io/v1", kind: "VirtualMachine", name, uid, controller: true };
      await server.apply({
        ...{ ...object, kind: "VirtualMachineInstance", spec, status: { phase: "Scheduling" } },
        metadata: { ...object.metadata, ownerReferences: [vm] },
      });
    }

    /** As virt-controller makes it; Multus' ADD of the interface follows. @returns the pod and the addresses of the answer */
    async function launch(vm: string, suffix: string) {
      const name = `virt-launcher-${vm}-${suffix}`;
      const networks = JSON.stringify([{ name: "blue", namespace: "tests", interface: IFNAME }]);
      // Until the webhook listens, no launcher is made.
      await until("the launcher is made", () =>
        server.apply({
          ...{ apiVersion: "v1", kind: "Pod" },
          metadata: {
            ...{ name, namespace: "tests", labels: { "kubevirt.io": "virt-launcher" } },
            annotations: { "kubevirt.io/domain": vm, "k8s.v1.cni.cncf.io/networks": networks },
          },
          spec: { nodeName: "n1", containers: [{ name: "main", image: "none" }] },
        }),
      );
      const pod = await read("pod", name);
      const { uid, annotations } = pod.metadata;
      const args = `IgnoreUnknown=1;K8S_POD_NAMESPACE=tests;K8S_POD_NAME=${name};K8S_POD_UID=${uid}`;
      const target = {
        CNI_CONTAINERID: `c-${name}`,
        CNI_IFNAME: IFNAME,
        CNI_NETNS: `/run/elsewhere/${name}`,
      };
      const env = { ...target, CNI_ARGS: args, CNI_PATH: "/none", CNI_COMMAND: "ADD" };
      let addresses: readonly string[] = [];
      await until("the ADD succeeds", async () => {
        const { code, stdout } = await startShim(
          { executable },
          {
            env: { ...env, KUBE_VHOSTUSER_IPAM_SOCKET: join(run.directory, "ipam.sock") },
            stdin: JSON.stringify(CONFIG),
          },
        ).ended;
        expect(code, stdout).toBe(0);
        addresses = JSON.parse(stdout).ips.map(({ address }: { address: string }) => address);
      });
      return { name, addresses, elements: JSON.parse(annotations["k8s.v1.cni.cncf.io/networks"]) };
    }

    it("its reference and its claim give both pods of a migration the claim's address", async () => {
      await startVm("vm1");
      const source = await launch("vm1", "source");
      expect(source.elements).toMatchObject([{ interface: IFNAME, "ipam-claim-reference": "vm1.red" }]);
      const claim = await read("ipamclaim", "vm1.red");
      const { uid } = (await read("virtualmachine", "vm1")).metadata;
      expect(claim.metadata.ownerReferences).toMatchObject([{ kind: "VirtualMachine", name: "vm1", uid }]);
      expect(claim.metadata.finalizers).toEqual(["kubevirt.io/persistent-ipam"]);
      expect(claim.spec).toEqual({ network: "blue-network", interface: "" });
      expect(claim.status.ips).toEqual(source.addresses);
      expect((await launch("vm1", "target")).addresses).toEqual(source.addresses);
    });

    it("its webhook names the claim again where KubeVirt rewrites the annotation of a running pod", async () => {
      const elements = [{ name: "blue", namespace: "tests", interface: IFNAME }];
      const annotation = `k8s.v1.cni.cncf.io/networks=${JSON.stringify(elements)}`;
      await server.kubectl(
        "-n",
        "tests",
        "annotate",
        "--overwrite",
        "pod",
        "virt-launcher-vm1-target",
        annotation,
      );
      const { annotations } = (await read("pod", "virt-launcher-vm1-target")).metadata;
      expect(annotations["k8s.v1.cni.cncf.io/networks"]).toContain('"ipam-claim-reference":"vm1.red"');
    });

    it("our controller makes no claims beside it, and says so in an event", async () => {
      await until("the event is there", async () => {
        const { items } = await read("events.events.k8s.io", "--all-namespaces");
        expect(items.map(({ reason }: { reason: string }) => reason)).toContain("ClaimsManagedElsewhere");
      });
      expect((await read("ipamclaim", "vm1.red")).metadata.labels).toEqual({ "kubevirt.io/vm": "vm1" });
    });

    it("a VM that is stopped and started keeps its address, and its claim goes with the VM", async () => {
      const { ips } = (await read("ipamclaim", "vm1.red")).status;
      for (const one of ["source", "target"]) await remove("pod", `virt-launcher-vm1-${one}`);
      await remove("virtualmachineinstance", "vm1");
      await startVm("vm1");
      expect((await launch("vm1", "restarted")).addresses).toEqual(ips);
      await remove("pod", "virt-launcher-vm1-restarted");
      await remove("virtualmachineinstance", "vm1");
      await remove("virtualmachine", "vm1");
      // What the garbage collector does; ipam-extensions takes its finalizer away.
      await server.kubectl("-n", "tests", "delete", "ipamclaim", "vm1.red", "--timeout=120s");
      await until("the address is free", async () =>
        expect((await read("addressallocations")).items).toEqual([]),
      );
    });

    it("when it is removed our controller takes its claims over, and makes those of new VMs", async () => {
      await startVm("vm2");
      const { addresses } = await launch("vm2", "before");
      await extensions.stop();
      await server.kubectl(
        ...["delete", "mutatingwebhookconfiguration"],
        "kubevirt-ipam-controller-mutating-webhook-configuration",
      );
      await until("the claim is taken over", async () => {
        const { labels } = (await read("ipamclaim", "vm2.red")).metadata;
        expect(Object.keys(labels)).toContain(VMI_INTERFACE_LABEL);
      });
      const after = await launch("vm2", "after");
      expect(after.elements[0]).not.toHaveProperty("ipam-claim-reference");
      expect(after.addresses).toEqual(addresses);
      await startVm("vm3");
      expect((await launch("vm3", "first")).addresses).toEqual(
        (await read("ipamclaim", "vm3.red")).status.ips,
      );
    });
  },
);
