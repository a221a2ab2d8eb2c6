import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Json, Stored } from "../../../test/stand-in/api-server/object-store.ts";
import {
  AgentRig,
  addressesOf,
  type IpamCall,
  openFailing,
  type TestAgent,
} from "../../../test/stand-in/ipam/agent-rig.ts";
import { IpamCluster } from "../../../test/stand-in/ipam/cluster.ts";
import { keyHash } from "../../address-objects/resources.ts";
import { vmiInterfaceHash, vmiRequestHash } from "../../claims/resources.ts";
import { hashedPodInterfaceName } from "../../names/interface-name.ts";

const CLAIMS = "tenant/ipamclaims";
const NET1 = hashedPodInterfaceName("blue");

let rig: AgentRig;
let cluster: IpamCluster;
let agent: TestAgent;
beforeEach(async () => {
  rig = await AgentRig.open();
  cluster = new IpamCluster(rig.api.server);
  rig.pool("six", { subnets: [{ cidr: "fd00::/120", gateway: "fd00::1" }], routes: [{ dst: "fd01::/64" }] });
  for (const cidr of ["10.0.0.16/28", "fd00::/122"]) cluster.blockOf(cidr, { kind: "Shared" });
  agent = await rig.agent({ claims: "referenced" });
});
afterEach(() => rig[Symbol.asyncDispose]());

const store = () => rig.api.server.store;
const claimNow = (name = "vm.blue") => store().get(CLAIMS, name);
const statusNow = (name?: string) => claimNow(name)["status"] as Json;
const owners = () =>
  store()
    .all("addressallocations")
    .map(({ spec }) => (spec as { owner: { name: string; uid: string } }).owner);

function claim(name = "vm.blue", { network = "net", ...metadata }: Json & { network?: string } = {}): Stored {
  const spec = { network, interface: "" };
  return store().create(CLAIMS, { metadata: { name, namespace: "tenant", ...metadata }, spec });
}

/** A pod whose interface refers to a claim, unless its networks are another list. */
function pod(
  name: string,
  networks: unknown = [{ name: "nad", interface: NET1, "ipam-claim-reference": "vm.blue" }],
  more: Json = {},
) {
  const annotations = {
    "kubernetes.io/config.hash": name,
    "k8s.v1.cni.cncf.io/networks": typeof networks === "string" ? networks : JSON.stringify(networks),
    ...(more["annotations"] as Json),
  };
  const metadata = { name, namespace: "tenant", ...more, annotations };
  return store().create("tenant/pods", { metadata, spec: { nodeName: "n1" } });
}

/** While it runs, the agent's waits pass. @param stepMs 0 where it has none: minutes may pass on a busy machine otherwise */
async function call(call: Partial<IpamCall>, of = agent, stepMs = 50) {
  const { pod: name = "p1", config = {} } = call;
  const whole = {
    ...{ verb: "ADD", ifname: NET1, container: `c-${name}`, pools: ["blue"] },
    ...{ ...call, config: { allowPersistentIPs: true, ...config } },
  };
  let isAnswered = false;
  const answered = of.call(whole).finally(() => {
    isAnswered = true;
  });
  await rig.api.until(() => isAnswered, stepMs);
  return answered;
}

const isOfNode = ({ spec }: Stored) => (spec as { owner: Json }).owner["kind"] === "Node";

/** A sandbox of the pod p1 ends. */
async function end(container: string) {
  rig.netns.delete(`/run/netns/${container}`);
  await call({ verb: "DEL", container }, agent, 0);
}

describe("an interface whose network element refers to a claim", () => {
  it("gets addresses of shared blocks, which are published after they are allocated", async () => {
    const { metadata } = claim();
    pod("p1");
    const { json } = await call({ pools: ["blue", "six"], pod: "p1" });
    expect(json).toEqual({
      cniVersion: "1.1.0",
      ips: [
        { address: expect.stringMatching(/^10\.0\.0\.(1[6-9]|2\d|30)\/24$/), gateway: "10.0.0.1" },
        { address: expect.stringMatching(/^fd00::.*\/120$/), gateway: "fd00::1" },
      ],
      routes: [{ dst: "fd01::/64" }],
    });
    const texts = (json.ips ?? []).map(({ address }) => address);
    expect(statusNow()).toMatchObject({
      ips: texts,
      ownerPod: { name: "p1" },
      conditions: [{ type: "IPsAllocated", status: "True", reason: "SuccessfulAllocation" }],
    });
    expect(owners()).toEqual([
      { kind: "IPAMClaim", namespace: "tenant", name: "vm.blue", uid: metadata.uid, network: "net" },
      { kind: "IPAMClaim", namespace: "tenant", name: "vm.blue", uid: metadata.uid, network: "net" },
    ]);
    expect(rig.blocks.filter(isOfNode)).toEqual([]);
  });

  it("gets the same ones, with the same gateway, in every later pod on every node, after DEL or before it, with one write at most (26: two pods with one claim at once are allowed; 27: an aborted migration frees nothing; 28: the same gateway on all nodes)", async () => {
    claim();
    pod("p1");
    const { json } = await call({});
    const first = addressesOf({ exitCode: 0, json });
    expect(json.ips).toMatchObject([{ gateway: "10.0.0.1" }]);
    const other = await rig.agent({ node: "n2", claims: "referenced" });
    pod("p2");
    const before = rig.writes.length;
    // A migration: the target while the source runs.
    expect((await call({ pod: "p2" }, other)).json).toEqual(json);
    expect(rig.writes.length).toBe(before + 1);
    expect(statusNow()).toMatchObject({ ips: first, ownerPod: { name: "p2" } });
    // It is aborted; then the VM is stopped and started.
    await call({ verb: "DEL", pod: "p2" }, other);
    expect([owners().length, statusNow()["ips"]]).toEqual([1, first]);
    await call({ verb: "DEL" });
    pod("p3");
    expect(addressesOf(await call({ pod: "p3" }, other))).toEqual(first);
    expect(owners()).toHaveLength(1);
    expect(store().all(CLAIMS)).toHaveLength(1);
  });

  it("gets no default route and no DNS unless the network has them, and two interfaces never two default routes (8)", async () => {
    const second = hashedPodInterfaceName("red");
    claim();
    claim("vm.red", { network: "red-net" });
    pod("p1", [
      { name: "nad", interface: NET1, "ipam-claim-reference": "vm.blue" },
      { name: "nad-red", interface: second, "ipam-claim-reference": "vm.red" },
    ]);
    const red = { ifname: second, network: "red-net" };
    for (const { exitCode, json } of [await call({}), await call(red)]) {
      expect(exitCode).toBe(0);
      expect(Object.keys(json).sort()).toEqual(["cniVersion", "ips"]);
    }
    const asked = { routes: [{ dst: "0.0.0.0/0" }], dns: { nameservers: ["10.0.0.53"] } };
    const ipam = { pools: ["blue"], ...asked };
    expect((await call({ ...red, ipam, container: "next" })).json).toMatchObject(asked);
  });

  it("is answered from the journal when its ADD is repeated, and passes CHECK", async () => {
    claim();
    pod("p1");
    const first = await call({});
    rig.apiAway();
    expect(await call({})).toEqual(first);
    const config = { prevResult: { cniVersion: "1.1.0", ips: first.json.ips } };
    expect((await call({ verb: "CHECK", config })).exitCode).toBe(0);
    await call({ verb: "DEL" });
    expect((await call({ verb: "CHECK", config })).json["code"]).toBe(106);
  });

  it("gets in the pod's next sandbox what it had while the API server is away, also after a restart of the agent", async () => {
    claim();
    pod("p1");
    pod("p2");
    const first = addressesOf(await call({}));
    rig.apiAway();
    // Of the same claim, and of which nothing is known without the API server.
    expect((await call({ pod: "p2" }, agent, 0)).json).toMatchObject({ code: 11 });
    const next = { pod: "p1", container: "next" };
    expect(addressesOf(await call(next, agent, 0))).toEqual(first);
    await end("c-p1");
    await end("next");
    await rig.crash(agent);
    agent = await rig.startAgent({ claims: "referenced" });
    expect(addressesOf(await call({ ...next, container: "third" }, agent, 0))).toEqual(first);
    const unknown = [{ ...next, ifname: "net9" }, { ...next, network: "other" }, { pod: "p2" }];
    for (const other of unknown)
      expect((await call({ container: "c9", ...other }, agent, 0)).json.code).toBe(11);
  });

  it("gets in the next sandbox what it had also where the disk was full at the first attempt", async () => {
    const disk = { isFull: false, forKeys: "allocation/" };
    agent = await rig.agent({ node: "n2", claims: "referenced", openJournal: openFailing(disk) });
    claim();
    pod("p1");
    const first = addressesOf(await call({}));
    rig.apiAway();
    await end("c-p1");
    disk.isFull = true;
    expect((await call({ container: "next" }, agent, 0)).exitCode).not.toBe(0);
    disk.isFull = false;
    expect(addressesOf(await call({ container: "next" }, agent, 0))).toEqual(first);
  });

  it.each([
    ["the former sandbox goes on without the interface", async () => rig.minutes(1)],
    [
      "an hour has passed",
      async () => {
        rig.netns.clear();
        await rig.minutes(61);
      },
    ],
    [
      "the node was rebooted",
      async () => {
        await rig.crash(agent);
        agent = await rig.startAgent({ claims: "referenced", bootId: "boot-2" });
      },
    ],
    [
      "claims were switched off",
      async () => {
        await rig.crash(agent);
        agent = await rig.startAgent({});
      },
    ],
  ])("gets nothing without the API server when %s", async (_what, happens) => {
    claim();
    pod("p1");
    await call({});
    await call({ verb: "DEL" });
    rig.apiAway();
    await happens();
    expect((await call({ container: "next" })).exitCode).toBe(1);
  });

  it("gets what the claim has now where the API server answers, whatever it had", async () => {
    claim();
    pod("p1");
    const first = addressesOf(await call({}));
    await end("c-p1");
    store().remove(CLAIMS, "vm.blue", {});
    expect((await call({ container: "next" })).json).toMatchObject({ code: 11 });
    claim();
    const second = addressesOf(await call({ container: "next" }));
    expect(second).not.toEqual(first);
    await end("next");
    rig.apiAway();
    expect(addressesOf(await call({ container: "third" }, agent, 0))).toEqual(second);
  });

  it("gets what the controller publishes meanwhile, without a write of its own but for the pod's name", async () => {
    const { metadata } = claim();
    pod("p1");
    const answered = call({});
    await rig.api.until(
      () => rig.api.server.answers.some((one) => one.includes("200")) && rig.api.clock.pending.length > 0,
    );
    const owner = {
      kind: "IPAMClaim",
      namespace: "tenant",
      name: "vm.blue",
      uid: metadata.uid,
      network: "net",
    };
    store().create("addressallocations", {
      metadata: { name: "default.10-0-0-20" },
      spec: { space: "default", pool: "blue", address: "10.0.0.20", owner },
    });
    store().merge(CLAIMS, "vm.blue", { status: { ips: ["10.0.0.20/24"] } }, "status");
    expect(addressesOf(await answered)).toEqual(["10.0.0.20/24"]);
    expect(owners()).toHaveLength(1);
    expect(statusNow()).toMatchObject({ ownerPod: { name: "p1" } });
  });

  it("gets the same as one on another node at the same time", async () => {
    claim();
    pod("p1");
    pod("p2");
    const other = await rig.agent({ node: "n2", claims: "referenced" });
    const [one, two] = await Promise.all([
      call({ pools: ["blue", "six"] }),
      call({ pod: "p2", pools: ["blue", "six"] }, other),
    ]);
    expect(addressesOf(one)).toEqual(addressesOf(two));
    expect(statusNow()["ips"]).toEqual(addressesOf(one));
  });

  it("learns why it gets none, its claim says it too, and it gets some when there are", async () => {
    for (const value of [...Array(16).keys()]) cluster.allocation(`10.0.0.${16 + value}`, undefined);
    claim();
    pod("p1");
    const refused = await call({});
    expect(refused.json).toMatchObject({ code: 11, msg: expect.stringContaining("pool-exhausted") });
    const condition = { type: "IPsAllocated", status: "False", reason: "SubnetExhausted" };
    expect(statusNow()).toMatchObject({ ips: [], conditions: [condition] });
    const { resourceVersion } = claimNow().metadata;
    await call({ container: "c2" });
    expect(claimNow().metadata.resourceVersion).toBe(resourceVersion);
    cluster.remove("addressallocations", "default.10-0-0-25");
    expect(addressesOf(await call({ container: "c3" }))).toEqual(["10.0.0.25/24"]);
    expect(statusNow()).toMatchObject({ conditions: [{ status: "True" }] });
  });
});

it("the address of a sticky pool that a former VM of the name had is given to the VM that was restored", async () => {
  rig.pool("kept", { mode: "PerAddress", sticky: "Key", subnets: [{ cidr: "10.7.0.0/24" }] });
  cluster.blockOf("10.7.0.0/28", { kind: "Shared" });
  const spec = { space: "default", pool: "kept", address: "10.7.0.9", key: "tenant/ipamclaim/vm.blue" };
  const key = keyHash(spec.key);
  const labels = { "ipam.kube-vhostuser.io/space": "default", "ipam.kube-vhostuser.io/key": key };
  store().create("addressallocations", { metadata: { name: "default.10-7-0-9", labels }, spec });
  await rig.api.until(() => agent.state.pools.has("kept"));
  claim();
  pod("p1");
  expect(addressesOf(await call({ pools: ["kept"] }))).toEqual(["10.7.0.9/24"]);
  expect(owners()).toMatchObject([{ kind: "IPAMClaim", name: "vm.blue" }]);
});

describe("addresses that a claim has already", () => {
  const restored = (...ips: string[]) => {
    claim();
    store().merge(CLAIMS, "vm.blue", { status: { ips } }, "status");
    pod("p1");
  };

  it("are allocated for it where they are free, as after a restore, and no others", async () => {
    restored("10.0.0.22/24");
    expect(addressesOf(await call({ pools: ["blue", "six"] }))).toEqual(["10.0.0.22/24"]);
    expect(owners()).toMatchObject([{ kind: "IPAMClaim", name: "vm.blue" }]);
  });

  it.each([
    ["of another claim", "10.0.0.22/24", /IPAMClaim tenant\/other has it/],
    ["of a node's block", "10.0.0.77/24", /is not shared/],
    ["of no subnet of the network", "10.9.0.1/24", /no pool of the network has a subnet/],
  ])("%s are refused, and stay as they are", async (_what, ip, why) => {
    const owner = { kind: "IPAMClaim", namespace: "tenant", name: "other", uid: "u", network: "net" };
    store().create("addressallocations", {
      metadata: { name: "default.10-0-0-22" },
      spec: { space: "default", pool: "blue", address: "10.0.0.22", owner },
    });
    restored(ip);
    const { json } = await call({});
    expect(json.msg).toMatch(why);
    const condition = { type: "IPsAllocated", status: "False", reason: "IPAddressConflict" };
    expect(statusNow()).toMatchObject({ ips: [ip], conditions: [condition] });
    expect(owners()).toHaveLength(1);
  });

  it("stay the pod's where its pool does not hand them out any more", async () => {
    claim();
    pod("p1");
    const first = addressesOf(await call({}));
    const pool = store().get("addresspools", "blue");
    const subnets = [{ cidr: "10.0.0.0/24", exclude: ["10.0.0.16/28"] }];
    store().update("addresspools", "blue", { ...pool, spec: { ...(pool["spec"] as Json), subnets } });
    await rig.api.until(() => agent.state.pools.get("blue")?.usable.has(0x0a000014n) === false);
    pod("p2");
    expect(addressesOf(await call({ pod: "p2" }))).toEqual(first);
  });
});

describe("no address is given", () => {
  it.each([
    [
      "there is no claim: it is tried again, and no other address is given (12)",
      () => undefined,
      11,
      /ipam-claim-missing: there is no claim vm\.blue yet/,
    ],
    [
      "the claim is being deleted",
      () => {
        claim("vm.blue", { finalizers: ["kubevirt.io/persistent-ipam"] });
        store().remove(CLAIMS, "vm.blue", {});
      },
      11,
      /ipam-claim-missing: claim vm\.blue is being deleted/,
    ],
    [
      "the network of the running VM was changed",
      () => claim("vm.blue", { network: "red-net" }),
      119,
      /ipam-claim-refused: the claim is for network "red-net", and the interface is of network net/,
    ],
    [
      "the claim's addresses cannot be read",
      () => {
        claim();
        store().merge(CLAIMS, "vm.blue", { status: { ips: ["10.0.0.4"] } }, "status");
      },
      999,
      /invalid-address-object.*ips/,
    ],
  ])("while %s", async (_what, prepare, code, message) => {
    prepare();
    pod("p1");
    expect((await call({})).json).toMatchObject({ code, msg: expect.stringMatching(message) });
    expect([...store().all("addressallocations"), ...rig.blocks.filter(isOfNode)]).toEqual([]);
  });

  it("to the migration target of a VM whose network was changed, and the claim says so until a pod of its network uses it", async () => {
    const given = { type: "IPsAllocated", status: "True" };
    claim();
    pod("p1");
    const ips = addressesOf(await call({}));
    pod("p2");
    const target = { pod: "p2", network: "red-net" };
    const refused = await call(target);
    expect(refused.json.msg).toMatch(/ipam-claim-refused: the claim is for network "net"/);
    const changed = { type: "NetworkChanged", status: "True", reason: "InterfaceOfOtherNetwork" };
    const message = 'the claim is for network "net", and the interface is of network red-net';
    expect(statusNow()).toMatchObject({ ips, conditions: [given, { ...changed, message }] });
    const { resourceVersion } = claimNow().metadata;
    await call({ ...target, container: "again" });
    expect(claimNow().metadata.resourceVersion).toBe(resourceVersion);
    expect(addressesOf(await call({ container: "next" }))).toEqual(ips);
    expect(statusNow()).toMatchObject({ conditions: [given, { status: "False", reason: "SameNetwork" }] });
  });

  const element = { name: "nad", interface: NET1 };
  const reference = { "ipam-claim-reference": "vm.blue" };
  it.each([
    [
      "refers with an empty text",
      [{ ...element, "ipam-claim-reference": "" }],
      /must be the name of an IPAMClaim/,
    ],
    ["is not JSON", "[{", /it is not JSON/],
    [
      "has addresses too",
      [{ ...element, ...reference, ips: ["10.0.0.9"] }],
      /both ips and ipam-claim-reference/,
    ],
    [
      "has the claim twice",
      [
        { ...element, ...reference },
        { name: "x", interface: "net9", ...reference },
      ],
      /another network of the pod refers to claim/,
    ],
    [
      "has the interface twice",
      [{ ...element, ...reference }, element],
      /several networks of the pod may be this interface's/,
    ],
  ])("to a pod whose annotation %s", async (_what, networks, message) => {
    claim();
    pod("p1", networks);
    expect((await call({})).json).toMatchObject({ code: 119, msg: expect.stringMatching(message) });
  });

  it("where Multus does not say of which of two networks the interface is", async () => {
    claim();
    pod("p1", [{ name: "a", ...reference }, { name: "b" }]);
    expect((await call({ ifname: "net1" })).json.msg).toMatch(/several networks/);
  });

  it("to a pod of another UID, without a pod, beside a requested one, and while claims are off in the cluster (37)", async () => {
    claim();
    store().create("tenant/pods", { metadata: { name: "p1", namespace: "tenant" }, spec: {} });
    expect((await call({})).json.msg).toMatch(/superseded: the pod was deleted, or replaced/);
    expect((await call({ pod: "p0" })).json.msg).toMatch(/superseded/);
    expect((await call({ env: { CNI_ARGS: "" } })).json.msg).toMatch(/the runtime named no pod/);
    pod("p2");
    const config = { runtimeConfig: { ips: ["10.0.0.9"] } };
    expect((await call({ pod: "p2", config })).json.msg).toMatch(
      /10\.0\.0\.9 is requested, and claim vm\.blue has/,
    );
    const off = await rig.agent({ node: "n2" });
    expect((await call({ pod: "p2" }, off)).json).toMatchObject({
      code: 2,
      msg: expect.stringMatching(/switched off/),
    });
    expect((await call({ ipam: { ranges: [[{ subnet: "10.1.0.0/24" }]] } })).json.msg).toMatch(
      /needs ipam\.pools/,
    );
  });

  it("while the API server is away, whatever step it is away for", async () => {
    claim();
    pod("p1");
    let refusals = 0;
    for (let step = 0; ; step++) {
      rig.api.server.illnesses.push(...Array(step).fill(undefined), { kind: "half" });
      const answer = await call({ container: `c${step}` });
      // A request of the agent's watches may have had it.
      const isOver = rig.api.server.illnesses.splice(0).length > 0;
      if (answer.exitCode !== 0) {
        expect(answer.json.code).toBe(11);
        refusals += 1;
      } else if (isOver) break;
    }
    expect(refusals).toBeGreaterThan(0);
    // Every write was done, and none of the answers came.
    expect(owners()).toHaveLength(1);
    expect(statusNow()["ips"]).toEqual(addressesOf(await call({ container: "last" })));
  });
});

describe("STATUS of a network with allowPersistentIPs", () => {
  it("is fine where the cluster has IPAMClaims, and otherwise says what is missing", async () => {
    const { groups } = rig.api.server;
    groups.set("k8s.cni.cncf.io", ["v1"]);
    expect((await call({ verb: "STATUS" })).json).toMatchObject({
      code: 50,
      msg: expect.stringMatching(/ipamclaims\.k8s\.cni\.cncf\.io v1alpha1 is not served.*install/),
    });
    expect(await call({ verb: "STATUS", config: { allowPersistentIPs: false } })).toMatchObject({
      exitCode: 0,
    });
    groups.set("k8s.cni.cncf.io", ["v1", "v1alpha1"]);
    expect(await call({ verb: "STATUS" })).toEqual({ exitCode: 0, json: {} });
    const back = rig.apiAway();
    expect((await call({ verb: "STATUS" })).json).toMatchObject({
      code: 50,
      msg: expect.stringContaining("401"),
    });
    back();
    const off = await rig.agent({ node: "n2" });
    expect((await call({ verb: "STATUS" }, off)).json).toMatchObject({
      code: 50,
      msg: expect.stringContaining("claims are switched off in this cluster"),
    });
  });
});

describe("an interface without a reference", () => {
  it("gets an address of the pod's own, of this node's blocks, until the pod ends (15)", async () => {
    pod("p1", "nad@net1");
    expect((await call({ ifname: "net1" })).exitCode).toBe(0);
    expect(rig.blocks.filter(isOfNode)).toHaveLength(1);
    await call({ verb: "DEL", ifname: "net1" });
    expect(agent.state.allocations.size).toBe(0);
    pod("p2", "");
    expect((await call({ pod: "p2", ifname: "eth0" })).exitCode).toBe(0);
    expect(store().all("addressallocations")).toEqual([]);
  });

  it("costs no request where the network does not have the key (4)", async () => {
    await call({ config: { allowPersistentIPs: false } });
    rig.apiAway();
    const later = { container: "c2", config: { allowPersistentIPs: false } };
    expect((await call(later, agent, 0)).exitCode).toBe(0);
  });
});

describe("a VM's interface whose claim our controller makes", () => {
  const labels = { "kubevirt.io": "virt-launcher" };
  const vmi = `${"a-long-name".repeat(10)}-1`;
  const launcher = (name: string, of = vmi) => {
    const annotations = { "kubevirt.io/domain": of };
    return pod(name, [{ name: "nad", interface: NET1 }], { labels, annotations });
  };
  const made = (name: string, of = vmi) =>
    claim(name, { labels: { "ipam.kube-vhostuser.io/vmi-interface": vmiInterfaceHash(of, NET1) } });
  beforeEach(async () => {
    agent = await rig.agent({ node: "n2", claims: "managed" });
  });

  it("is found by the whole name of the VM, which the names of launcher pods do not have", async () => {
    launcher("p1");
    expect((await call({})).json).toMatchObject({
      code: 11,
      msg: expect.stringMatching(/has not made the claim/),
    });
    made("one.blue");
    const twin = `${vmi.slice(0, -1)}2`;
    launcher("p2", twin);
    made("two.blue", twin);
    const [one, two] = [addressesOf(await call({})), addressesOf(await call({ pod: "p2" }))];
    expect(one).not.toEqual(two);
    expect([statusNow("one.blue")["ips"], statusNow("two.blue")["ips"]]).toEqual([one, two]);
  });

  it("is refused where a copy has its label; a reference, and a pod that is no VM's, are as ever", async () => {
    launcher("p1");
    made("one.blue");
    made("copy");
    expect((await call({})).json.msg).toMatch(/claims one\.blue, copy have the same label/);
    pod("p2", "nad@net1", { annotations: { "kubevirt.io/domain": vmi } });
    expect((await call({ pod: "p2", ifname: "net1" })).exitCode).toBe(0);
    expect(store().all("addressallocations")).toEqual([]);
    claim();
    pod("p3");
    expect(addressesOf(await call({ pod: "p3" }))).toEqual(statusNow()["ips"]);
  });
});

describe("a VM's ResourceClaim", () => {
  const vm = "web";
  const args = (name: string, claim = "fast") =>
    `K8S_POD_NAMESPACE=tenant;K8S_POD_NAME=${name};K8S_POD_UID=${name};RESOURCE_CLAIM=${claim};RESOURCE_CLAIM_REQUEST=port`;
  const launcher = (name: string) =>
    pod(name, "", { labels: { "kubevirt.io": "virt-launcher" }, annotations: { "kubevirt.io/domain": vm } });
  const made = (name = "web.red", request = { claim: "fast", request: "port" }) =>
    claim(name, { labels: { "ipam.kube-vhostuser.io/vmi-request": vmiRequestHash(vm, request) } });
  const prepare = (name: string, of = agent, claimName?: string) =>
    call({ pod: name, ifname: `vhu-${name}`, env: { CNI_ARGS: args(name, claimName) } }, of);
  beforeEach(async () => {
    agent = await rig.agent({ node: "n2", claims: "managed" });
  });

  it("gets the addresses of the IPAMClaim of VM, claim and request, on a migration's target too", async () => {
    made();
    made("web.other", { claim: "fast", request: "other" });
    launcher("p1");
    launcher("p2");
    const first = addressesOf(await prepare("p1"));
    expect(statusNow("web.red")).toMatchObject({ ips: first, ownerPod: { name: "p1" } });
    const target = await rig.agent({ node: "n1", claims: "managed", journal: "target" });
    expect(addressesOf(await prepare("p2", target))).toEqual(first);
    expect(owners()).toMatchObject([{ kind: "IPAMClaim", name: "web.red" }]);
  });

  it("waits for the controller, and then fails with error 11: kubelet tries again", async () => {
    launcher("p1");
    const answered = prepare("p1");
    await rig.api.until(() => rig.api.clock.pending.length > 0);
    made();
    expect(addressesOf(await answered)).toEqual(statusNow("web.red")["ips"]);
    launcher("p2");
    expect((await prepare("p2", agent, "slow")).json).toMatchObject({
      code: 11,
      msg: expect.stringMatching(/has not made the claim .*/),
      details: expect.stringContaining("request port of ResourceClaim slow"),
    });
  });

  it("is refused in words where nothing makes its IPAMClaim; a pod that is no VM's has an address of its own", async () => {
    const referenced = await rig.agent({ node: "n1", claims: "referenced", journal: "other" });
    launcher("p1");
    expect((await prepare("p1", referenced)).json.msg).toMatch(/no program makes the claims/);
    pod("p2", "");
    expect((await prepare("p2", referenced)).exitCode).toBe(0);
    expect(store().all("addressallocations")).toEqual([]);
  });
});
