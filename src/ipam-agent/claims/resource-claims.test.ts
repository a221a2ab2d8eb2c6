import { afterEach, beforeEach, expect, it } from "vitest";
import { cniConfig } from "../../../test/stand-in/dra/claim-object.ts";
import { DraRig } from "../../../test/stand-in/dra/dra-rig.ts";
import { AgentRig } from "../../../test/stand-in/ipam/agent-rig.ts";
import { IpamCluster } from "../../../test/stand-in/ipam/cluster.ts";
import { vmiRequestHash } from "../../claims/resources.ts";

let agents: AgentRig;
const nodes: DraRig[] = [];
beforeEach(async () => {
  agents = await AgentRig.open();
  new IpamCluster(agents.api.server).blockOf("10.0.0.16/28", { kind: "Shared" });
});
afterEach(async () => {
  for (const node of nodes.splice(0)) await node.close();
  await agents[Symbol.asyncDispose]();
});

/** A node with a daemon, whose IPAM plugin asks the agent of the node. */
async function node(name: string): Promise<DraRig> {
  const agent = await agents.agent({ node: name, claims: "managed" });
  const rig = await DraRig.open();
  nodes.push(rig);
  let startedAtMs = 0;
  const ipam: typeof rig.context.ipam = ({ env, stdin }) =>
    agent.handle({ env, stdin: Buffer.from(stdin), startedAtMs: startedAtMs++ }, AbortSignal.timeout(60_000));
  Object.assign(rig.context, { ipam });
  return rig;
}

/** The port of the VM's pod on a node, from its ResourceClaim there. */
async function prepare(rig: DraRig, pod: string) {
  agents.api.server.store.create("tenant/pods", {
    metadata: {
      ...{ name: pod, namespace: "tenant", labels: { "kubevirt.io": "virt-launcher" } },
      annotations: { "kubevirt.io/domain": "web", "kubernetes.io/config.hash": pod },
    },
    spec: { nodeName: "n1" },
  });
  const network = {
    ...{ cniVersion: "1.1.0", name: "blue", type: "kube-vhostuser", portSecurity: true },
    ...{ allowPersistentIPs: true, ipam: { type: "kube-vhostuser-ipam", pools: ["blue"] } },
  };
  let isPrepared = false;
  const prepared = rig
    .prepare({
      ...{ name: `${pod}-fast-x`, namespace: "tenant", uid: `uid-${pod}`, podClaimName: "fast" },
      pods: [{ name: pod, uid: pod }],
      config: [{ source: "FromClass", parameters: cniConfig(network) }],
    })
    .finally(() => {
      isPrepared = true;
    });
  await agents.api.until(() => isPrepared, 50);
  await prepared;
  return rig.records.ports.list()[0];
}

it("a VM's ResourceClaims have the IPAMClaim's address on source and target, in port security and status too", async () => {
  agents.api.server.store.create("tenant/ipamclaims", {
    metadata: {
      ...{ name: "web.net1", namespace: "tenant" },
      labels: {
        "ipam.kube-vhostuser.io/vmi-request": vmiRequestHash("web", { claim: "fast", request: "net" }),
      },
    },
    spec: { network: "blue", interface: "" },
  });
  const [source, target] = [await node("n1"), await node("n2")];
  const first = await prepare(source, "virt-launcher-web-aaaaa");
  const [address = ""] = first?.lease?.given?.ips.map((ip) => ip.address) ?? [];
  expect(address).toMatch(/^10\.0\.0\.\d+\/24$/);
  const claim = () => agents.api.server.store.get("tenant/ipamclaims", "web.net1");
  expect(claim()["status"]).toMatchObject({ ips: [address] });
  const second = await prepare(target, "virt-launcher-web-bbbbb");
  for (const port of [first, second])
    expect(port?.settings.security).toEqual({ addresses: [address.split("/")[0]] });
  expect(first?.mac).toBe(second?.mac);
  expect(target.reports.at(-1)?.devices[0]?.port?.lease?.given?.ips).toMatchObject([{ address }]);
  // The end of a pod changes nothing.
  await source.unprepare();
  expect(claim()["status"]).toMatchObject({ ips: [address] });
  expect(agents.api.server.store.all("addressallocations")).toHaveLength(1);
});
