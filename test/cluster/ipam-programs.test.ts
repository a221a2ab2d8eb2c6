// The IPAM programs and the executable on a real API server, with the rights and policies of the chart and no others.
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parseAddress } from "../../src/addresses/address.ts";
import { type LabRun, openLabRun } from "../machine/lab-run.ts";
import { runProgram } from "../machine/run-program.ts";
import { DEPLOY, readManifests } from "../manifests/manifest.ts";
import { type IpamCall, IpamRig } from "./ipam-rig.ts";
import { PROJECT } from "./kubernetes-parts.ts";

const EXAMPLE = join(DEPLOY, "examples/networks/pools.yaml");

describe.skipIf(process.env["KUBECONFIG"])("the IPAM programs", () => {
  let run: LabRun;
  let rig: IpamRig;

  beforeAll(async () => {
    run = await openLabRun({ narrator: { say: (line) => console.log(line) } });
    rig = await IpamRig.open(run, { nodes: ["n1", "n2"], enabled: ["enabled"] });
    await rig.startController("n2");
    await rig.startAgent("n1");
  });
  afterAll(() => run?.close());

  const ipam = { type: "kube-vhostuser-ipam", pools: ["blue-v4", "blue-v6"] };
  const config = { cniVersion: "1.1.0", name: "blue", type: "macvlan", ipam };
  const pod = { name: "p", uid: "uid-of-p" };
  const call = (verb: IpamCall["verb"], container: string) =>
    rig.call({ verb, node: "n1", container, interfaceName: "net1", pod, config });

  it("hand out addresses of the example's pools, which show it", async () => {
    await rig.until("the space is there", async () => {
      await rig.server.kubectl("get", "addressspace", "default");
    });
    await rig.server.apply(...readManifests(EXAMPLE).filter(({ kind }) => kind === "AddressPool"));
    await rig.until("an ADD succeeds", async () => expect((await call("ADD", "c1")).code).toBe(0));
    const { json } = await call("ADD", "c1");
    const [ipv4, ipv6] = json.ips.map(({ address }: { address: string }) => address.split("/"));
    expect([parseAddress(ipv4[0])?.family, ipv4[1]]).toEqual(["ipv4", "22"]);
    expect([parseAddress(ipv6[0])?.family, ipv6[1]]).toEqual(["ipv6", "64"]);
    expect(json).toMatchObject({
      ips: [{ gateway: "10.40.0.1" }, { gateway: "fd40::1" }],
      routes: [{ dst: "10.0.0.0/8", gw: "10.40.0.1" }],
      dns: { nameservers: ["10.40.0.2"], search: ["tests.example"] },
    });
    const blocks = (await rig.get("addressblocks")).items;
    expect(blocks).toHaveLength(2);
    const { uid } = (await rig.get("node", "n1")).metadata;
    for (const { spec } of blocks)
      expect(spec).toMatchObject({ state: "Bound", owner: { kind: "Node", name: "n1", uid } });
    await rig.until("the pools' status is there", async () => {
      const [first, second] = (await rig.get("addresspools")).items;
      const ready = expect.objectContaining({ type: "Ready", status: "True" });
      expect(first.status).toMatchObject({
        total: 1007,
        blocks: 1,
        conditions: expect.arrayContaining([ready]),
      });
      expect(second.status).toMatchObject({ total: Number.MAX_SAFE_INTEGER, inBlocks: expect.any(Number) });
    });
  });

  it("show who has an address, on the node and elsewhere", async () => {
    const [{ address }] = (await call("ADD", "c1")).json.ips;
    const who = async (text: string) => {
      const args = ["src/ctl/main.ts", "ip", "who", text, "--agent-socket", rig.statusSocketOf("n1")];
      return (await runProgram(process.execPath, args, { cwd: PROJECT })).stdout;
    };
    expect(await who(address.split("/")[0])).toContain("tests/p");
    // The agent asks the API server for its block, and for an allocation.
    expect(await who("10.44.0.9")).toContain("10.44.0.9");
  });

  it("need no right that the chart does not give them", async () => {
    for (const program of ["ipam-agent", "ipam-controller"] as const)
      expect(await rig.refusedRequests(program)).toEqual([]);
  });

  it("hand out and take back while the API server is away", async () => {
    const before = await call("ADD", "c1");
    await rig.server.kill();
    expect(await call("ADD", "c1")).toEqual(before);
    const { code, json } = await call("ADD", "c2");
    expect(code).toBe(0);
    expect(json.ips).toHaveLength(2);
    expect(await call("DEL", "c2")).toEqual({ code: 0, json: undefined });
    await rig.server.restart();
  });

  it("give the blocks of a node that is gone to others, and say so in events", async () => {
    await rig.killAgent("n1");
    await rig.server.kubectl("delete", "node", "n1");
    await rig.until("the blocks are quarantined", async () => {
      const states = (await rig.get("addressblocks")).items.map(
        ({ spec }: { spec: { state: string } }) => spec.state,
      );
      expect(states).toEqual(["Quarantined", "Quarantined"]);
    });
    await rig.until("the blocks are deleted", async () =>
      expect((await rig.get("addressblocks")).items).toEqual([]),
    );
    const { items } = await rig.get("events.events.k8s.io", "--all-namespaces");
    expect(items.map(({ reason }: { reason: string }) => reason)).toContain("AddressBlockQuarantined");
  });
});
