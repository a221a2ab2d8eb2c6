// Agents and claims on a real API server: what the rights and policies of the chart let agents do, and not.
import { join } from "node:path";
import { pino } from "pino";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { changedAllocation, newAllocation } from "../../src/address-objects/address-allocation.ts";
import { newBlock } from "../../src/address-objects/address-block.ts";
import { newSpace } from "../../src/address-objects/address-space.ts";
import {
  ADDRESS_ALLOCATIONS,
  ADDRESS_BLOCKS,
  ADDRESS_POOLS,
  ADDRESS_SPACES,
  IPAM_API_VERSION,
  statusOf,
} from "../../src/address-objects/resources.ts";
import { parseAddress, parsePrefix } from "../../src/addresses/address.ts";
import {
  CLAIM_API_VERSION,
  IPAM_CLAIMS,
  inNamespace,
  VMI_INTERFACE_LABEL,
  vmiInterfaceHash,
} from "../../src/claims/resources.ts";
import { type Agent, startAgent } from "../../src/ipam-agent/agent.ts";
import { KubeApi, type KubeObject, type Resource } from "../../src/kube-api/client.ts";
import { monotonicMs, systemClock } from "../../src/sync/clock.ts";
import { type LabRun, openLabRun } from "../machine/lab-run.ts";
import { waitUntil } from "../machine/wait-until.ts";
import { ApiServer } from "./api-server.ts";
import { IPAM_CLAIM_DEFINITION, NETWORK_DEFINITION } from "./ipam-claim-definitions.ts";
import { kubernetesParts } from "./kubernetes-parts.ts";

const NAMESPACE = "kube-vhostuser";
const NODES = ["n1", "n2"] as const;
const CLAIMS = inNamespace(IPAM_CLAIMS, "tests");
const PODS: Resource = { group: "", version: "v1", plural: "pods", namespace: "tests" };
const ACCOUNTS: Resource = { group: "", version: "v1", plural: "serviceaccounts", namespace: "tests" };
const signal = AbortSignal.timeout(600_000);

describe.skipIf(process.env["KUBECONFIG"])("claims", () => {
  let run: LabRun;
  let server: ApiServer;
  let admin: KubeApi;
  const clients = new Map<string, KubeApi>();
  const agents = new Map<string, Agent>();

  beforeAll(async () => {
    run = await openLabRun({ narrator: { say: (line) => console.log(line) } });
    server = await ApiServer.start(run, kubernetesParts(process.env, ["etcd", "apiServer"]));
    await server.apply(
      ...[NAMESPACE, "tests"].map((name) => ({ apiVersion: "v1", kind: "Namespace", metadata: { name } })),
      ...NODES.map((name) => ({ apiVersion: "v1", kind: "Node", metadata: { name } })),
      ...[IPAM_CLAIM_DEFINITION, NETWORK_DEFINITION],
    );
    const values = ["enabled", "claims.enabled", "claims.manage"]
      .map((key) => `--set ipam.${key}=true`)
      .join(" ");
    await server.sh(`helm install kube-vhostuser deploy/chart/kube-vhostuser -n ${NAMESPACE} ${values}`);
    admin = clientOf("admin", server.administrator);
    await admin.create(
      ACCOUNTS,
      { apiVersion: "v1", kind: "ServiceAccount", metadata: { name: "default" } },
      signal,
    );
    await admin.create(ADDRESS_SPACES, newSpace("default"), signal);
    for (const resource of [IPAM_CLAIMS, ADDRESS_ALLOCATIONS])
      await untilSo(`${resource.plural} are served`, () => admin.list(resource, {}, signal).then(() => true));
    for (const [name, cidr] of Object.entries({ blue: "10.0.0.0/24", six: "fd00::/64" }))
      await admin.create(
        ADDRESS_POOLS,
        {
          apiVersion: IPAM_API_VERSION,
          kind: "AddressPool",
          metadata: { name },
          spec: { subnets: [{ cidr }] },
        },
        signal,
      );
    for (const cidr of ["10.0.0.0/28", "fd00::/122"]) {
      const prefix = parsePrefix(cidr);
      if (prefix === undefined) throw new Error(cidr);
      const shared = {
        space: "default",
        prefix,
        owner: { kind: "Shared" },
        state: "Bound",
        pool: undefined,
      } as const;
      // Some moments after the chart was installed, its policy knows no spaces yet.
      await untilSo(`${cidr} is shared`, () =>
        admin.create(ADDRESS_BLOCKS, newBlock(shared), signal).then(() => true),
      );
    }
    for (const node of NODES) await startAgentOf(node);
  });
  afterAll(async () => {
    for (const agent of agents.values()) await agent.close();
    for (const client of clients.values()) client.close();
    await run?.close();
  });

  function clientOf(name: string, serviceAccountDirectory: string): KubeApi {
    const client = new KubeApi({ url: server.url, serviceAccountDirectory });
    clients.set(name, client);
    return client;
  }

  async function startAgentOf(node: (typeof NODES)[number]): Promise<void> {
    const [name, account] = [`agent-${node}`, "kube-vhostuser-ipam-agent"];
    await server.apply({
      ...{ apiVersion: "v1", kind: "Pod", metadata: { name, namespace: NAMESPACE } },
      spec: { nodeName: node, serviceAccountName: account, containers: [{ name: "main", image: "none" }] },
    });
    const api = clientOf(node, await server.serviceAccountOf({ namespace: NAMESPACE, name, account }));
    const agent = await startAgent({
      ...{ node, api, stateDirectory: join(run.directory, node), bootId: "boot", claims: "managed" },
      ...{
        hasNetns: async () => true,
        listNetns: async () => [],
        clock: systemClock,
        logger: pino({ level: "silent" }),
      },
    });
    agents.set(node, agent);
    await untilSo(
      "the agent knows the pools",
      async () => agent.state.pools.size === 2 && agent.state.spaces.size === 1,
    );
  }

  const untilSo = (what: string, isSo: () => Promise<boolean>) =>
    waitUntil(() => isSo().catch(() => false), { what, limitMs: 60_000, everyMs: 200 });
  const agentApi = () => clients.get("n1") as KubeApi;
  const claimOf = (name: string) => admin.get(CLAIMS, name, signal);

  /** Interface is the empty text, as kubevirt/ipam-extensions has it. */
  function claim(name: string, metadata: object = {}): Promise<KubeObject> {
    const spec = { network: "net", interface: "" };
    const head = { apiVersion: CLAIM_API_VERSION, kind: "IPAMClaim" };
    return admin.create(CLAIMS, { ...head, metadata: { name, ...metadata }, spec }, signal);
  }

  function pod(name: string, reference?: string, more: object = {}): Promise<KubeObject> {
    const element = { name: "nad", interface: "pod1234", "ipam-claim-reference": reference };
    const annotations = {
      "k8s.v1.cni.cncf.io/networks": JSON.stringify([element]),
      "kubevirt.io/domain": "vm",
    };
    const spec = { nodeName: "n1", containers: [{ name: "main", image: "none" }] };
    return admin.create(
      PODS,
      { apiVersion: "v1", kind: "Pod", metadata: { name, annotations, ...more }, spec },
      signal,
    );
  }

  async function add(node: (typeof NODES)[number], { metadata }: KubeObject) {
    const { name, uid } = metadata;
    const env = {
      ...{
        CNI_COMMAND: "ADD",
        CNI_CONTAINERID: `c-${name}-${node}`,
        CNI_IFNAME: "pod1234",
        CNI_NETNS: "/run/netns/x",
      },
      CNI_ARGS: `K8S_POD_NAMESPACE=tests;K8S_POD_NAME=${name};K8S_POD_UID=${uid}`,
    };
    const ipam = { type: "kube-vhostuser-ipam", pools: ["blue", "six"] };
    const stdin = Buffer.from(
      JSON.stringify({ cniVersion: "1.1.0", name: "net", type: "bridge", allowPersistentIPs: true, ipam }),
    );
    const answer = await (agents.get(node) as Agent).handle(
      { env, stdin, startedAtMs: monotonicMs() },
      signal,
    );
    const json = JSON.parse(answer.stdout) as { ips?: { address: string }[]; code?: number; msg?: string };
    return { ...json, addresses: json.ips?.map(({ address }) => address) };
  }

  it("are given addresses by an agent with the chart's rights, the same for pods on all nodes", async () => {
    await claim("vm.blue");
    const [source, target] = [await pod("source", "vm.blue"), await pod("target", "vm.blue")];
    const first = await add("n1", source);
    expect(first.addresses, first.msg).toEqual([
      expect.stringMatching(/^10\.0\.0\.\d+\/24$/),
      expect.stringMatching(/^fd00::.*\/64$/),
    ]);
    expect((await add("n2", target)).addresses).toEqual(first.addresses);
    expect((await claimOf("vm.blue"))["status"]).toMatchObject({
      ips: first.addresses,
      ownerPod: { name: "target" },
      conditions: [{ type: "IPsAllocated", status: "True", reason: "SuccessfulAllocation" }],
    });
  });

  it("get one set of addresses from two agents that allocate at the same time", async () => {
    for (let round = 0; round < 5; round++) {
      const name = `race-${round}`;
      await claim(name);
      const [one, two] = [await pod(`one-${round}`, name), await pod(`two-${round}`, name)];
      const [first, second] = await Promise.all([add("n1", one), add("n2", two)]);
      expect(first.addresses, first.msg).toHaveLength(2);
      expect(second.addresses).toEqual(first.addresses);
      expect((await claimOf(name))["status"]).toMatchObject({ ips: first.addresses });
    }
  });

  it("are found by the label that the controller sets, and waited for", async () => {
    const launcher = await pod("launcher", undefined, { labels: { "kubevirt.io": "virt-launcher" } });
    expect(await add("n1", launcher)).toMatchObject({
      code: 11,
      msg: expect.stringContaining("ipam-claim-missing"),
    });
    await claim("vm.green", {
      labels: { [VMI_INTERFACE_LABEL]: vmiInterfaceHash("vm", "pod1234") },
      finalizers: ["tests/held"],
    });
    const { addresses } = await add("n1", launcher);
    expect((await claimOf("vm.green"))["status"]).toMatchObject({ ips: addresses });
    await admin.delete(CLAIMS, "vm.green", {}, signal);
    expect(await add("n2", launcher)).toMatchObject({
      code: 11,
      msg: expect.stringContaining("is being deleted"),
    });
    await admin.patch(
      CLAIMS,
      "vm.green",
      { type: "merge", body: { metadata: { finalizers: null } } },
      signal,
    );
  });

  it("keep what they have published against the token of an agent, and their allocations", async () => {
    const read = await claimOf("vm.blue");
    const status = read["status"] as { readonly ips: readonly string[] };
    for (const ips of [[], ["10.0.0.9/24"], status.ips.slice(1)])
      await expect(
        agentApi().update(statusOf(CLAIMS), { ...read, status: { ...status, ips } }, signal),
      ).rejects.toThrow(/the addresses of a claim never change/);
    const { status: _, ...without } = read;
    await expect(agentApi().update(statusOf(CLAIMS), without as KubeObject, signal)).rejects.toThrow(
      /never change/,
    );
    await expect(agentApi().update(CLAIMS, read, signal)).rejects.toMatchObject({ problem: "forbidden" });
    await expect(agentApi().delete(CLAIMS, "vm.blue", {}, signal)).rejects.toMatchObject({
      problem: "forbidden",
    });
    const { objects } = await admin.list(ADDRESS_ALLOCATIONS, {}, signal);
    const [own] = objects.filter(
      ({ spec }) => (spec as { owner: { uid: string } }).owner.uid === read.metadata.uid,
    );
    if (own === undefined) throw new Error("no allocation");
    await expect(agentApi().update(ADDRESS_ALLOCATIONS, own, signal)).rejects.toThrow(
      /forbidden|must not write/,
    );
    await expect(agentApi().delete(ADDRESS_ALLOCATIONS, own.metadata.name, {}, signal)).rejects.toThrow(
      /forbidden|must not write/,
    );
  });

  it("let an agent's token take an address that waits for a claim's key, and not one that a claim has", async () => {
    const address = parseAddress("10.0.0.98");
    if (address === undefined) throw new Error("no address");
    const key = "tests/ipamclaim/vm.kept";
    const content = { space: "default", pool: "blue", address, node: undefined, owner: undefined, key };
    const waiting = await admin.create(ADDRESS_ALLOCATIONS, newAllocation(content), signal);
    const named = { kind: "IPAMClaim", namespace: "tests", name: "vm.kept", network: "net" };
    const given = (read: KubeObject, uid: string) =>
      changedAllocation(read, { node: undefined, owner: { ...named, uid } });
    const taken = await agentApi().update(ADDRESS_ALLOCATIONS, given(waiting, "u1"), signal);
    await expect(agentApi().update(ADDRESS_ALLOCATIONS, given(taken, "u2"), signal)).rejects.toThrow(
      /must not write/,
    );
    await admin.delete(ADDRESS_ALLOCATIONS, taken.metadata.name, {}, signal);
  });

  it("let an agent's token take addresses for claims and its own node's pods alone", async () => {
    const address = parseAddress("10.0.0.99");
    if (address === undefined) throw new Error("no address");
    const content = { space: "default", pool: "blue", address, node: undefined, key: undefined };
    const named = { namespace: "tests", name: "x", uid: "u", network: "net" };
    const create = (owner: object, node?: string) =>
      agentApi().create(
        ADDRESS_ALLOCATIONS,
        newAllocation({ ...content, node, owner: owner as never }),
        signal,
        { isDryRun: true },
      );
    await create({ kind: "IPAMClaim", ...named });
    await expect(create({ kind: "IPAddressClaim", ...named })).rejects.toThrow(/must not write/);
    const ofPod = { kind: "Pod", ...named, interface: "net1", container: "c" };
    await expect(create(ofPod, "n2")).rejects.toThrow(/must not write/);
  });
});
