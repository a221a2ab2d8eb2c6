// The IPAM programs and a VM's claim on a real API server, with the rights and policies of the chart and no others.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { hashedPodInterfaceName } from "../../src/names/interface-name.ts";
import { type LabRun, openLabRun } from "../machine/lab-run.ts";
import { IPAM_CLAIM_DEFINITION, KUBEVIRT_DEFINITIONS, NETWORK_DEFINITION } from "./ipam-claim-definitions.ts";
import { type IpamCall, IpamRig, TESTS } from "./ipam-rig.ts";

const VM = "vm1";
/** The VM's name of its network. */
const NETWORK = "red";
const CLAIM = `${VM}.${NETWORK}`;
const INTERFACE = hashedPodInterfaceName(NETWORK);
const VMI_SPEC = {
  networks: [{ name: NETWORK, multus: { networkName: "blue" } }],
  domain: { devices: { interfaces: [{ name: NETWORK, binding: { name: "vhostuser" } }] } },
};
/** Of the NetworkAttachmentDefinition `blue`. */
const CONFIG = {
  ...{ cniVersion: "1.1.0", name: "blue-network", type: "kube-vhostuser", allowPersistentIPs: true },
  ipam: { type: "kube-vhostuser-ipam", pools: ["blue"] },
};

/** A launcher pod, on its node. */
interface Launcher {
  readonly name: string;
  readonly uid: string;
  readonly node: string;
}

describe.skipIf(process.env["KUBECONFIG"])("a VM's claim", () => {
  let run: LabRun;
  let rig: IpamRig;
  /** What the VM had at first. */
  let ips: readonly string[];
  let source: Launcher;

  beforeAll(async () => {
    run = await openLabRun({ narrator: { say: (line) => console.log(line) } });
    rig = await IpamRig.open(run, {
      nodes: ["n1", "n2"],
      enabled: ["enabled", "claims.enabled", "claims.manage"],
      objects: [IPAM_CLAIM_DEFINITION, NETWORK_DEFINITION, ...KUBEVIRT_DEFINITIONS],
    });
    await rig.startController("n1", "--claims", "--manage-claims");
    for (const node of ["n1", "n2"]) await rig.startAgent(node, "--claims", "managed");
    await rig.until("the pool's kind is served", () =>
      rig.server.apply({
        ...{ apiVersion: "ipam.kube-vhostuser.io/v1alpha1", kind: "AddressPool" },
        ...{ metadata: { name: "blue" }, spec: { subnets: [{ cidr: "10.0.0.0/24" }] } },
      }),
    );
    await rig.until("networks are served", () =>
      rig.server.apply({
        ...{ apiVersion: "k8s.cni.cncf.io/v1", kind: "NetworkAttachmentDefinition" },
        ...{ metadata: { name: "blue", namespace: TESTS }, spec: { config: JSON.stringify(CONFIG) } },
      }),
    );
    const [apiGroup, user] = ["rbac.authorization.k8s.io", "owner-of-vms"];
    const apiVersion = `${apiGroup}/v1`;
    const verbs = ["get", "create", "patch"];
    await rig.server.apply(
      {
        ...{ apiVersion, kind: "Role", metadata: { name: user, namespace: TESTS } },
        rules: [{ apiGroups: ["kubevirt.io"], resources: ["virtualmachines"], verbs }],
      },
      {
        ...{ apiVersion, kind: "RoleBinding", metadata: { name: user, namespace: TESTS } },
        subjects: [{ apiGroup, kind: "User", name: user }],
        roleRef: { apiGroup, kind: "Role", name: user },
      },
    );
    await rig.until("KubeVirt's kinds are served", () =>
      rig.server.applyAs(user, vmObject("VirtualMachine", { spec: { template: { spec: VMI_SPEC } } })),
    );
  });
  afterAll(() => run?.close());

  const vmObject = (kind: string, more: object, metadata: object = {}) => ({
    ...{ apiVersion: "kubevirt.io/v1", kind, metadata: { name: VM, namespace: TESTS, ...metadata } },
    ...more,
  });
  const inTests = (...args: readonly string[]) => rig.get("-n", TESTS, ...args);
  const remove = (kind: string, name: string) =>
    rig.server.kubectl("-n", TESTS, "delete", kind, name, "--force", "--grace-period=0");
  const claimedIps = async () => (await inTests("ipamclaim", CLAIM)).status?.ips;
  const allocations = async () => (await rig.get("addressallocations")).items;

  /** KubeVirt starts the VM. */
  async function startInstance(): Promise<void> {
    const { uid } = (await inTests("virtualmachine", VM)).metadata;
    const owner = { apiVersion: "kubevirt.io/v1", kind: "VirtualMachine", name: VM, uid, controller: true };
    const state = { spec: VMI_SPEC, status: { phase: "Scheduling" } };
    await rig.server.apply(vmObject("VirtualMachineInstance", state, { ownerReferences: [owner] }));
  }

  async function startLauncher(name: string, node: string): Promise<Launcher> {
    const element = { name: "blue", namespace: TESTS, interface: INTERFACE };
    const annotations = {
      "k8s.v1.cni.cncf.io/networks": JSON.stringify([element]),
      "kubevirt.io/domain": VM,
    };
    const metadata = { name, namespace: TESTS, annotations, labels: { "kubevirt.io": "virt-launcher" } };
    const spec = { nodeName: node, containers: [{ name: "compute", image: "none" }] };
    await rig.server.apply({ apiVersion: "v1", kind: "Pod", metadata, spec });
    return { name, node, uid: (await inTests("pod", name)).metadata.uid };
  }

  const call = (verb: IpamCall["verb"], pod: Launcher) =>
    rig.call({
      verb,
      node: pod.node,
      container: `c-${pod.name}`,
      interfaceName: INTERFACE,
      pod,
      config: CONFIG,
    });

  /** As kubelet does: again while it is CNI's error 11. @returns the pod's addresses */
  async function add(pod: Launcher): Promise<readonly string[]> {
    let given: readonly string[] = [];
    await rig.until(`${pod.name} has its addresses`, async () => {
      const { code, json } = await call("ADD", pod);
      expect(code, json?.msg).toBe(0);
      given = json.ips.map(({ address }: { address: string }) => address);
    });
    return given;
  }

  async function end(pod: Launcher): Promise<void> {
    expect(await call("DEL", pod)).toEqual({ code: 0, json: undefined });
    await remove("pod", pod.name);
  }

  it("is made when the VM starts, and its address is that of the launcher pod; who made the VM has no right to networks, pools and claims (34)", async () => {
    await startInstance();
    source = await startLauncher("launcher-1", "n1");
    ips = await add(source);
    expect(await call("STATUS", source)).toEqual({ code: 0, json: undefined });
    expect(ips).toEqual([expect.stringMatching(/^10\.0\.0\.\d+\/24$/)]);
    const { metadata, status } = await inTests("ipamclaim", CLAIM);
    expect(status).toMatchObject({ ips, conditions: [{ type: "IPsAllocated", status: "True" }] });
    expect(metadata.finalizers).toEqual(["kubevirt.io/persistent-ipam"]);
    expect(await allocations()).toHaveLength(1);
  });

  it("is the target's of a migration that is aborted, and stays", async () => {
    const target = await startLauncher("launcher-2", "n2");
    expect(await add(target)).toEqual(ips);
    await end(target);
    expect(await claimedIps()).toEqual(ips);
    expect(await add(source), "ADD of the source, which is repeated").toEqual(ips);
  });

  it("is the target's of a migration that ends the source", async () => {
    const target = await startLauncher("launcher-3", "n2");
    expect(await add(target)).toEqual(ips);
    await end(source);
    source = target;
    expect(await claimedIps()).toEqual(ips);
  });

  it("is the same after the VM was stopped and started", async () => {
    await end(source);
    await remove("virtualmachineinstance", VM);
    await startInstance();
    source = await startLauncher("launcher-4", "n1");
    expect(await add(source)).toEqual(ips);
    expect(await allocations()).toHaveLength(1);
  });

  it("goes with the VM, and then its address is free", async () => {
    await end(source);
    await remove("virtualmachineinstance", VM);
    await remove("virtualmachine", VM);
    // What the garbage collector does; it waits for the finalizer.
    await rig.server.kubectl("-n", TESTS, "delete", "ipamclaim", CLAIM);
    await rig.until("the address is free", async () => expect(await allocations()).toEqual([]));
  });

  it("is not made beside kubevirt/ipam-extensions, and says so in an event", async () => {
    await rig.server.apply({
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
    await rig.until("the event is there", async () => {
      const { items } = await rig.get("events.events.k8s.io", "--all-namespaces");
      expect(items.map(({ reason }: { reason: string }) => reason)).toContain("ClaimsManagedElsewhere");
    });
  });

  it("needs no right that the chart does not give the programs", async () => {
    for (const program of ["ipam-agent", "ipam-controller"] as const)
      expect(await rig.refusedRequests(program)).toEqual([]);
  });
});
