// Objects of IPAM on a real API server: what its rules refuse, and what the rights of the chart let each program write.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  type AllocationContent,
  changedAllocation,
  newAllocation,
} from "../../src/address-objects/address-allocation.ts";
import {
  type BlockContent,
  blockStatusUpdate,
  changedBlock,
  newBlock,
  parseAddressBlock,
} from "../../src/address-objects/address-block.ts";
import { parseAddressPool, poolStatusUpdate } from "../../src/address-objects/address-pool.ts";
import { newSpace, parseAddressSpace } from "../../src/address-objects/address-space.ts";
import * as resources from "../../src/address-objects/resources.ts";
import { formatPrefix, parseAddress, parsePrefix } from "../../src/addresses/address.ts";
import { blockOf as blockOfSpace } from "../../src/addresses/grid.ts";
import { KubeApi, type KubeObject, type Resource } from "../../src/kube-api/client.ts";
import { allocateShared } from "../../src/pool-addresses/allocate-shared.ts";
import { releaseShared } from "../../src/pool-addresses/release-shared.ts";
import { type LabRun, openLabRun } from "../machine/lab-run.ts";
import { waitUntil } from "../machine/wait-until.ts";
import { ApiServer } from "./api-server.ts";
import { kubernetesParts } from "./kubernetes-parts.ts";

const { ADDRESS_SPACES, ADDRESS_POOLS, ADDRESS_BLOCKS, ADDRESS_ALLOCATIONS, statusOf } = resources;
const NODES_RESOURCE: Resource = { group: "", version: "v1", plural: "nodes" };
const NAMESPACE = "kube-vhostuser";
const NODES = ["n1", "n2"] as const;
const signal = AbortSignal.timeout(600_000);

const ownerOf = (name: string) => ({ kind: "Node", name, uid: `uid-of-${name}`, journal: "j1" }) as const;
function blockOf(cidr: string, change: Partial<BlockContent> = {}): KubeObject {
  const prefix = parsePrefix(cidr);
  if (prefix === undefined) throw new Error(`${cidr} is not a network`);
  return newBlock({
    space: "default",
    prefix,
    owner: ownerOf("n1"),
    state: "Bound",
    pool: undefined,
    ...change,
  });
}
const POD = {
  ...{ kind: "Pod", namespace: "tests", name: "p", uid: "uid-of-p" },
  ...{ network: "blue", interface: "net1", container: "c1" },
};
function allocationOf(text: string, change: Partial<AllocationContent> = {}): KubeObject {
  const address = parseAddress(text);
  if (address === undefined) throw new Error(`${text} is not an address`);
  const content = { space: "default", pool: "blue", address, node: "n1", owner: POD, key: undefined };
  return newAllocation({ ...content, ...change });
}
function poolOf(spec: object, name = "blue") {
  return { apiVersion: resources.IPAM_API_VERSION, kind: "AddressPool", metadata: { name }, spec };
}
function withSpec(object: KubeObject, change: object): KubeObject {
  return { ...object, spec: { ...(object["spec"] as object), ...change } };
}

describe.skipIf(process.env["KUBECONFIG"])("objects of IPAM", () => {
  let run: LabRun;
  let server: ApiServer;
  let admin: KubeApi;
  let controller: KubeApi;
  let unbound: KubeApi;
  const agents = new Map<string, KubeApi>();
  const clients: KubeApi[] = [];

  beforeAll(async () => {
    run = await openLabRun({ narrator: { say: (line) => console.log(line) } });
    server = await ApiServer.start(run, kubernetesParts(process.env, ["etcd", "apiServer"]));
    await server.apply(
      { apiVersion: "v1", kind: "Namespace", metadata: { name: NAMESPACE } },
      ...NODES.map((name) => ({ apiVersion: "v1", kind: "Node", metadata: { name } })),
    );
    await server.sh(
      `helm install kube-vhostuser deploy/chart/kube-vhostuser -n ${NAMESPACE} --set ipam.enabled=true`,
    );
    const clientOf = async (name: string, account: string, nodeName: string, isBound = true) => {
      await server.apply({
        ...{ apiVersion: "v1", kind: "Pod", metadata: { name, namespace: NAMESPACE } },
        spec: { nodeName, serviceAccountName: account, containers: [{ name: "main", image: "none" }] },
      });
      const directory = await server.serviceAccountOf({ namespace: NAMESPACE, name, account }, isBound);
      return client(directory);
    };
    const client = (serviceAccountDirectory: string) => {
      const api = new KubeApi({ url: server.url, serviceAccountDirectory });
      clients.push(api);
      return api;
    };
    admin = client(server.administrator);
    for (const node of NODES)
      agents.set(node, await clientOf(`agent-${node}`, "kube-vhostuser-ipam-agent", node));
    unbound = await clientOf("agent-unbound", "kube-vhostuser-ipam-agent", "n1", false);
    controller = await clientOf("controller", "kube-vhostuser-ipam-controller", "n1");
    await controller.create(ADDRESS_SPACES, newSpace("default"), signal);
    // The policy of blocks' sizes knows a space some moments after it was made.
    await untilRefused(() =>
      admin.create(ADDRESS_BLOCKS, blockOf("10.255.0.0/24"), signal, { isDryRun: true }),
    );
  });
  afterAll(async () => {
    for (const one of clients) one.close();
    await run?.close();
  });

  const agent = (node: (typeof NODES)[number] = "n1"): KubeApi => agents.get(node) as KubeApi;
  const create = (resource: Resource, object: object, by = admin) => by.create(resource, object, signal);
  const untilRefused = async (attempt: () => Promise<unknown>): Promise<void> => {
    const isRefused = () =>
      attempt().then(
        () => false,
        () => true,
      );
    await waitUntil(isRefused, { what: "the chart's policies are in force", limitMs: 60_000, everyMs: 200 });
  };

  describe("are refused by their definitions", () => {
    it.each([
      [{ subnets: [{ cidr: "10.0.0.5/24" }] }, /spec\.subnets\[0\]\.cidr: .*must be a network in CIDR form/],
      [{ subnets: [{ cidr: "FD00::/64" }] }, /must be a network in CIDR form/],
      [{ subnets: [{ cidr: "::ffff:10.0.0.0/120" }] }, /must be a network in CIDR form/],
      [{ subnets: [{ cidr: "10.0.0.0/24" }, { cidr: "fd00::/64" }] }, /IPv4 or IPv6 subnets, not both/],
      [{ subnets: [{ cidr: "10.0.0.0/24" }, { cidr: "10.0.0.0/25" }] }, /two subnets overlap/],
      [
        { subnets: [{ cidr: "10.0.0.0/24", gateway: "10.0.1.1" }] },
        /gateway: .*must be inside 10\.0\.0\.0\/24/,
      ],
      [{ subnets: [{ cidr: "10.0.0.0/24", ranges: ["10.0.0.4-10.0.1.9"] }] }, /ranges: .*must be inside/],
      [{ subnets: [{ cidr: "10.0.0.0/24", exclude: ["fd00::1"] }] }, /exclude: .*must be inside/],
      [{ subnets: [{ cidr: "10.0.0.0/24", ranges: ["10.0.0.4/24"] }] }, /must be "first-last"/],
      [{ subnets: [] }, /at least 1 items/],
      [{ subnets: [{ cidr: "10.0.0.0/24" }], mode: "Other" }, /Unsupported value: "Other"/],
      [
        { subnets: [{ cidr: "10.0.0.0/24" }], routes: [{ dst: "10.0.0.1/8" }] },
        /must be a network in CIDR form/,
      ],
    ])("a pool with %j", async (spec, message) => {
      await expect(create(ADDRESS_POOLS, poolOf(spec))).rejects.toThrow(message);
    });

    it("a pool that changes its space or mode, while its subnets may change", async () => {
      const spec = { subnets: [{ cidr: "10.0.0.0/24", gateway: "10.0.0.1" }] };
      const made = await create(ADDRESS_POOLS, poolOf(spec));
      expect(parseAddressPool(made)).toMatchObject({
        space: "default",
        mode: "NodeBlocks",
        cooldownSeconds: 60,
      });
      for (const change of [{ space: "other" }, { mode: "PerAddress" }])
        await expect(admin.update(ADDRESS_POOLS, withSpec(made, change), signal)).rejects.toThrow(
          /create another pool/,
        );
      const larger = withSpec(made, {
        subnets: [...spec.subnets, { cidr: "10.0.1.0/24", ranges: ["10.0.1.9"] }],
      });
      const changed = parseAddressPool(await admin.update(ADDRESS_POOLS, larger, signal));
      expect(changed.usable.size).toBe(253n + 1n);
    });

    it("a space that changes the size of its blocks, and one whose name is no label", async () => {
      const space = await admin.get(ADDRESS_SPACES, "default", signal);
      const other = withSpec(space, { blockPrefixes: { ipv4: 26, ipv6: 122 } });
      await expect(admin.update(ADDRESS_SPACES, other, signal)).rejects.toThrow(/never change their size/);
      await expect(create(ADDRESS_SPACES, newSpace("a.b"))).rejects.toThrow(/without dots/);
    });

    it("a block under a name that is not made of its addresses, and of another size than its space's", async () => {
      const named = (name: string, object: KubeObject) => ({
        ...object,
        metadata: { ...object.metadata, name },
      });
      for (const [name, cidr] of [
        ["default.10-0-0-0.28", "10.0.0.16/28"],
        ["other.10-0-0-16.28", "10.0.0.16/28"],
        ["default.fd00--40.122", "fd00::40/122"],
      ] as const)
        await expect(create(ADDRESS_BLOCKS, named(name, blockOf(cidr)))).rejects.toThrow(
          /name|Invalid value/,
        );
      for (const cidr of ["10.0.0.0/24", "fd00::/64"])
        await expect(create(ADDRESS_BLOCKS, blockOf(cidr))).rejects.toThrow(/another prefix length than/);
    });

    it("a block that changes its owner", async () => {
      const made = await create(ADDRESS_BLOCKS, blockOf("10.3.0.0/28"));
      await expect(
        admin.update(ADDRESS_BLOCKS, changedBlock(made, { owner: ownerOf("n2") }), signal),
      ).rejects.toThrow(/never changes, except for its journal/);
      await expect(
        admin.update(ADDRESS_BLOCKS, changedBlock(made, { owner: { kind: "Shared" } }), signal),
      ).rejects.toThrow(/spec\.owner/);
    });

    it("an allocation without an owner and a key, or of another address than its name says", async () => {
      await expect(
        create(ADDRESS_ALLOCATIONS, allocationOf("10.0.0.5", { node: undefined, owner: undefined })),
      ).rejects.toThrow(/has an owner, or is kept for a key/);
      const wrong = withSpec(allocationOf("fd00::5"), { address: "fd00::6" });
      await expect(create(ADDRESS_ALLOCATIONS, wrong)).rejects.toThrow(/name must be made of/);
      const long = withSpec(allocationOf("fd00::5"), { address: "fd00:0::5" });
      await expect(create(ADDRESS_ALLOCATIONS, long)).rejects.toThrow(/canonical form/);
      await expect(
        create(ADDRESS_ALLOCATIONS, allocationOf("10.0.0.5", { node: undefined })),
      ).rejects.toThrow(/names the pod's node/);
      const { interface: _, container: __, ...bare } = POD;
      for (const owner of [bare, { ...POD, kind: "IPAMClaim" }])
        await expect(create(ADDRESS_ALLOCATIONS, allocationOf("10.0.0.5", { owner }))).rejects.toThrow(
          /a pod has interface and container, a claim has neither/,
        );
    });

    it("a pool of blocks with sticky addresses", async () => {
      const spec = { subnets: [{ cidr: "10.3.0.0/24" }], sticky: "MAC" };
      await expect(create(ADDRESS_POOLS, poolOf(spec, "kept"))).rejects.toThrow(
        /only pools of mode PerAddress/,
      );
    });
  });

  it.each([
    ...[
      "10.0.0.0",
      "255.255.255.254",
      "fd00::",
      "fd00::1",
      "::1",
      "::",
      "1:0:2:3:4:5:6:7",
      "1:0:0:2:0:0:0:3",
    ],
    ...["1:0:0:2:0:0:3:4", "1:2:3:4:5:6:0:0", "0:0:1::", "64:ff9b::192.0.2.33", "2001:db8:0:0:1:0:0:1"],
  ])("have the names that the programs give them: %s", async (text) => {
    await admin.create(ADDRESS_ALLOCATIONS, allocationOf(text), signal, { isDryRun: true });
    const address = parseAddress(text);
    const prefix = address && blockOfSpace(address, { ipv4: 28, ipv6: 122 });
    if (prefix === undefined) throw new Error(`${text} is not an address`);
    await admin.create(ADDRESS_BLOCKS, blockOf(formatPrefix(prefix)), signal, { isDryRun: true });
  });

  describe("are written by an agent", () => {
    it("that takes, changes and gives back blocks of its node", async () => {
      const made = await create(ADDRESS_BLOCKS, blockOf("10.1.0.0/28"), agent());
      await expect(create(ADDRESS_BLOCKS, blockOf("10.1.0.0/28"), agent())).rejects.toMatchObject({
        problem: "exists",
      });
      const journal = { owner: { ...ownerOf("n1"), journal: "j2" } };
      const changed = await agent().update(ADDRESS_BLOCKS, changedBlock(made, journal), signal);
      const status = blockStatusUpdate(parseAddressBlock(changed), 3);
      const counted = parseAddressBlock(await agent().update(statusOf(ADDRESS_BLOCKS), status, signal));
      expect(counted).toMatchObject({ used: 3, owner: journal.owner });
      const { name, uid } = counted;
      await expect(
        agent().delete(
          ADDRESS_BLOCKS,
          name,
          { uid, resourceVersion: made.metadata.resourceVersion ?? "" },
          signal,
        ),
      ).rejects.toMatchObject({ problem: "conflict" });
      const { resourceVersion } = counted;
      await agent().delete(ADDRESS_BLOCKS, name, { uid, resourceVersion }, signal);
    });

    it("but not those of another node, of all nodes, or of another IPAM", async () => {
      const refusal = /the agent of node n1 must not write blocks of another owner/;
      for (const owner of [ownerOf("n2"), { kind: "Shared" }, { kind: "Foreign" }] as const)
        await expect(create(ADDRESS_BLOCKS, blockOf("10.1.1.0/28", { owner }), agent())).rejects.toThrow(
          refusal,
        );
      const other = await create(
        ADDRESS_BLOCKS,
        blockOf("10.1.2.0/28", { owner: ownerOf("n2") }),
        agent("n2"),
      );
      const { name, uid = "", resourceVersion = "" } = other.metadata;
      await expect(agent().delete(ADDRESS_BLOCKS, name, { uid, resourceVersion }, signal)).rejects.toThrow(
        refusal,
      );
      const journal = { owner: { ...ownerOf("n2"), journal: "stolen" } };
      await expect(agent().update(ADDRESS_BLOCKS, changedBlock(other, journal), signal)).rejects.toThrow(
        refusal,
      );
      const status = blockStatusUpdate(parseAddressBlock(other), 16);
      await expect(agent().update(statusOf(ADDRESS_BLOCKS), status, signal)).rejects.toThrow(refusal);
    });

    it("but no quarantined block, unless the node that had it is back", async () => {
      const refusal = /must not delete a quarantined block, or quarantine one/;
      const quarantined = (cidr: string, uid: string) =>
        blockOf(cidr, { state: "Quarantined", owner: { ...ownerOf("n1"), uid } });
      await expect(create(ADDRESS_BLOCKS, quarantined("10.1.3.0/28", "any"), agent())).rejects.toThrow(
        refusal,
      );
      const { uid = "" } = (await admin.get(NODES_RESOURCE, "n1", signal)).metadata;
      const own = await create(ADDRESS_BLOCKS, quarantined("10.1.3.0/28", uid));
      await expect(agent().delete(ADDRESS_BLOCKS, own.metadata.name, {}, signal)).rejects.toThrow(refusal);
      const back = await agent().update(ADDRESS_BLOCKS, changedBlock(own, { state: "Bound" }), signal);
      await agent().delete(ADDRESS_BLOCKS, back.metadata.name, {}, signal);
      const former = await create(ADDRESS_BLOCKS, quarantined("10.1.4.0/28", "of-a-former-node"));
      await expect(
        agent().update(ADDRESS_BLOCKS, changedBlock(former, { state: "Bound" }), signal),
      ).rejects.toThrow(/was that of an earlier node of the name n1/);
      await controller.delete(ADDRESS_BLOCKS, former.metadata.name, {}, signal);
    });

    it("but not with a token that names no node", async () => {
      await expect(create(ADDRESS_BLOCKS, blockOf("10.1.5.0/28"), unbound)).rejects.toThrow(/names no node/);
    });

    it("that allocates shared addresses to pods of its node, and takes those that wait for their key", async () => {
      await create(ADDRESS_BLOCKS, blockOf("10.6.0.0/28", { owner: { kind: "Shared" } }));
      const spec = { subnets: [{ cidr: "10.6.0.0/24" }], mode: "PerAddress", sticky: "Key" };
      const pool = parseAddressPool(await create(ADDRESS_POOLS, poolOf(spec, "single")));
      const space = parseAddressSpace(await admin.get(ADDRESS_SPACES, "default", signal));
      const common = { pool, space, owner: POD, key: "tests/db", random: Math.random, signal };
      const both = [1, 2].map(() => allocateShared({ ...common, api: agent(), node: "n1" }));
      const [one, other] = await Promise.all(both);
      expect(one).toEqual(other);
      const { name = "" } = one ?? {};
      const held = await admin.get(ADDRESS_ALLOCATIONS, name, signal);
      for (const verb of ["update", "delete"] as const)
        await expect(
          verb === "update"
            ? agent("n2").update(
                ADDRESS_ALLOCATIONS,
                changedAllocation(held, { node: "n2", owner: POD }),
                signal,
              )
            : agent("n2").delete(ADDRESS_ALLOCATIONS, name, {}, signal),
        ).rejects.toThrow(/the agent of node n2 must not write addresses of other nodes' pods/);
      const emptied = changedAllocation(held, { node: undefined, owner: undefined });
      await agent().update(ADDRESS_ALLOCATIONS, emptied, signal);
      await expect(agent().delete(ADDRESS_ALLOCATIONS, name, {}, signal)).rejects.toThrow(/must not write/);
      const next = { ...POD, name: "q", uid: "uid-of-q" };
      const again = await allocateShared({ ...common, owner: next, api: agent("n2"), node: "n2" });
      expect(again).toMatchObject({ name, node: "n2", owner: next, key: "tests/db" });
      expect(await releaseShared(agent("n2"), again, signal)).toBe(true);
    });

    it("but no shared addresses of other nodes' pods, or of claims", async () => {
      const refusal = /the agent of node n1 must not write addresses of other nodes' pods/;
      const { interface: _, container: __, ...common } = POD;
      const claim = { ...common, kind: "IPAMClaim" };
      for (const change of [{ node: "n2" }, { node: undefined, owner: claim }])
        await expect(create(ADDRESS_ALLOCATIONS, allocationOf("10.6.0.9", change), agent())).rejects.toThrow(
          refusal,
        );
      await create(ADDRESS_ALLOCATIONS, allocationOf("10.6.0.9", { node: undefined, owner: claim }));
    });

    it("but no pools, spaces or counts of pools, which it reads", async () => {
      for (const resource of [ADDRESS_POOLS, ADDRESS_SPACES, ADDRESS_BLOCKS])
        await agent().list(resource, {}, signal);
      await expect(create(ADDRESS_SPACES, newSpace("own"), agent())).rejects.toMatchObject({
        problem: "forbidden",
      });
      const spec = { subnets: [{ cidr: "10.9.0.0/24" }] };
      await expect(create(ADDRESS_POOLS, poolOf(spec, "own"), agent())).rejects.toMatchObject({
        problem: "forbidden",
      });
    });
  });

  it("are counted and reclaimed by the controller, which gives no address an owner", async () => {
    const pool = parseAddressPool(
      await create(ADDRESS_POOLS, poolOf({ subnets: [{ cidr: "fd00::/64" }] }, "green")),
    );
    const counts = {
      total: Number.MAX_SAFE_INTEGER,
      inBlocks: 64,
      used: 1,
      free: 1,
      blocks: 1,
      conditions: [],
    };
    const written = await controller.update(statusOf(ADDRESS_POOLS), poolStatusUpdate(pool, counts), signal);
    expect(written["status"]).toMatchObject({ total: Number.MAX_SAFE_INTEGER });
    for (const [resource, name] of [
      [ADDRESS_POOLS, "green"],
      [ADDRESS_SPACES, "default"],
    ] as const) {
      const found = await controller.get(resource, name, signal);
      const kept = { ...found, metadata: { ...found.metadata, finalizers: [resources.IN_USE_FINALIZER] } };
      const guarded = await controller.update(resource, kept, signal);
      await controller.update(
        resource,
        { ...guarded, metadata: { ...guarded.metadata, finalizers: [] } },
        signal,
      );
    }
    const shared = { owner: { kind: "Shared" } } as const;
    const spare = await create(ADDRESS_BLOCKS, blockOf("fd00::80/122", shared), controller);
    const releasing = await controller.update(
      ADDRESS_BLOCKS,
      changedBlock(spare, { state: "Releasing" }),
      signal,
    );
    await controller.delete(ADDRESS_BLOCKS, releasing.metadata.name, {}, signal);
    await create(ADDRESS_BLOCKS, blockOf("fd00::40/122", { owner: { kind: "Shared" } }), controller);
    const kept = await create(ADDRESS_ALLOCATIONS, allocationOf("fd00::41", { key: "02:00:00:00:00:01" }));
    const emptied = changedAllocation(kept, { node: undefined, owner: undefined });
    const { metadata } = await controller.update(ADDRESS_ALLOCATIONS, emptied, signal);
    await controller.delete(ADDRESS_ALLOCATIONS, metadata.name, {}, signal);
    await expect(create(ADDRESS_ALLOCATIONS, allocationOf("fd00::42"), controller)).rejects.toMatchObject({
      problem: "forbidden",
    });
  });

  it("stay when the chart is removed, and are used again when it is back", async () => {
    await create(ADDRESS_BLOCKS, blockOf("10.7.0.0/28"), agent());
    await server.sh(`helm uninstall kube-vhostuser -n ${NAMESPACE}`);
    await expect(agent().get(ADDRESS_BLOCKS, "default.10-7-0-0.28", signal)).rejects.toMatchObject({
      problem: "forbidden",
    });
    await server.sh(
      `helm install kube-vhostuser deploy/chart/kube-vhostuser -n ${NAMESPACE} --set ipam.enabled=true`,
    );
    expect(parseAddressBlock(await admin.get(ADDRESS_BLOCKS, "default.10-7-0-0.28", signal)).owner).toEqual(
      ownerOf("n1"),
    );
    await server.sh(
      `helm upgrade kube-vhostuser deploy/chart/kube-vhostuser -n ${NAMESPACE} --set ipam.enabled=false`,
    );
    expect((await admin.list(ADDRESS_POOLS, {}, signal)).objects.length).toBeGreaterThan(0);
  });
});
