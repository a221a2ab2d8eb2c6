// The IPAM programs and the executable on a real API server, with the rights and policies of the chart and no others.
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { compileShim } from "../../scripts/build/compile-shim.ts";
import { parseAddress } from "../../src/addresses/address.ts";
import type { Child } from "../machine/child.ts";
import { type LabRun, openLabRun } from "../machine/lab-run.ts";
import { runProgram } from "../machine/run-program.ts";
import { waitUntilSucceeds } from "../machine/wait-until.ts";
import { DEPLOY, readManifests } from "../manifests/manifest.ts";
import { startShim } from "../shim/run-shim.ts";
import { ApiServer } from "./api-server.ts";
import { NAMESPACE, startIpamProgram } from "./ipam-program.ts";
import { kubernetesParts, PROJECT } from "./kubernetes-parts.ts";

const EXAMPLE = join(DEPLOY, "examples/networks/pools.yaml");
const userOf = (program: string) => `system:serviceaccount:${NAMESPACE}:kube-vhostuser-${program}`;

describe.skipIf(process.env["KUBECONFIG"])("the IPAM programs", () => {
  let run: LabRun;
  let server: ApiServer;
  let executable: string;
  let controller: Child;
  let agent: Child;

  beforeAll(async () => {
    run = await openLabRun({ narrator: { say: (line) => console.log(line) } });
    executable = await compileShim({
      executable: "kube-vhostuser-ipam",
      output: join(run.directory, "ipam"),
    });
    server = await ApiServer.start(run, kubernetesParts(process.env, ["etcd", "apiServer"]));
    await server.apply(
      { apiVersion: "v1", kind: "Namespace", metadata: { name: NAMESPACE } },
      ...["n1", "n2"].map((name) => ({ apiVersion: "v1", kind: "Node", metadata: { name } })),
    );
    await server.sh(
      `helm install kube-vhostuser deploy/chart/kube-vhostuser -n ${NAMESPACE} --set ipam.enabled=true`,
    );
    controller = await startIpamProgram(run, server, "ipam-controller", [], "n2");
    agent = await startIpamProgram(run, server, "ipam-agent", [
      ...["--state", join(run.directory, "state"), "--socket", join(run.directory, "ipam.sock")],
      ...["--netns", run.directory],
    ]);
  });
  afterAll(() => run?.close());

  /** What a CNI plugin does that delegates. */
  async function call(verb: string, container: string) {
    const target = { CNI_CONTAINERID: container, CNI_IFNAME: "net1", CNI_NETNS: `/run/netns/${container}` };
    const pod = "K8S_POD_NAMESPACE=tests;K8S_POD_NAME=p;K8S_POD_UID=uid-of-p";
    const env = { KUBE_VHOSTUSER_IPAM_SOCKET: join(run.directory, "ipam.sock"), CNI_ARGS: pod, ...target };
    const ipam = { type: "kube-vhostuser-ipam", pools: ["blue-v4", "blue-v6"] };
    const stdin = JSON.stringify({ cniVersion: "1.1.0", name: "blue", type: "macvlan", ipam });
    const { code, stdout } = await startShim({ executable }, { env: { ...env, CNI_COMMAND: verb }, stdin })
      .ended;
    return { code, json: stdout === "" ? undefined : JSON.parse(stdout) };
  }

  const until = (what: string, poll: () => Promise<void>): Promise<void> => {
    const waiting = waitUntilSucceeds(poll, { what, limitMs: 300_000, everyMs: 200 });
    return Promise.race([waiting, controller.died, agent.died]);
  };
  const listed = async (...args: readonly string[]) =>
    JSON.parse(await server.kubectl("get", ...args, "--output", "json"));

  it("hand out addresses of the example's pools, which show it", async () => {
    await until("the space is there", async () => {
      await server.kubectl("get", "addressspace", "default");
    });
    await server.apply(...readManifests(EXAMPLE).filter(({ kind }) => kind === "AddressPool"));
    await until("an ADD succeeds", async () => expect((await call("ADD", "c1")).code).toBe(0));
    const { json } = await call("ADD", "c1");
    const [ipv4, ipv6] = json.ips.map(({ address }: { address: string }) => address.split("/"));
    expect([parseAddress(ipv4[0])?.family, ipv4[1]]).toEqual(["ipv4", "22"]);
    expect([parseAddress(ipv6[0])?.family, ipv6[1]]).toEqual(["ipv6", "64"]);
    expect(json).toMatchObject({
      ips: [{ gateway: "10.40.0.1" }, { gateway: "fd40::1" }],
      routes: [{ dst: "10.0.0.0/8", gw: "10.40.0.1" }],
      dns: { nameservers: ["10.40.0.2"], search: ["tests.example"] },
    });
    const blocks = (await listed("addressblocks")).items;
    expect(blocks).toHaveLength(2);
    const { uid } = (await listed("node", "n1")).metadata;
    for (const { spec } of blocks)
      expect(spec).toMatchObject({ state: "Bound", owner: { kind: "Node", name: "n1", uid } });
    await until("the pools' status is there", async () => {
      const [first, second] = (await listed("addresspools")).items;
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
      const args = [
        "src/ctl/main.ts",
        "ip",
        "who",
        text,
        "--agent-socket",
        join(run.directory, "ipam-status.sock"),
      ];
      return (await runProgram(process.execPath, args, { cwd: PROJECT })).stdout;
    };
    expect(await who(address.split("/")[0])).toContain("tests/p");
    // The agent asks the API server for its block, and for an allocation.
    expect(await who("10.44.0.9")).toContain("10.44.0.9");
  });

  it("need no right that the chart does not give them", async () => {
    for (const program of ["ipam-agent", "ipam-controller"]) {
      const requests = await server.requestsOf(userOf(program));
      expect(requests.length).toBeGreaterThan(0);
      const refused = requests.filter(({ responseStatus }) =>
        [401, 403, 422].includes(responseStatus?.code ?? 0),
      );
      expect(refused).toEqual([]);
    }
  });

  it("hand out and take back while the API server is away", async () => {
    const before = await call("ADD", "c1");
    await server.kill();
    expect(await call("ADD", "c1")).toEqual(before);
    const { code, json } = await call("ADD", "c2");
    expect(code).toBe(0);
    expect(json.ips).toHaveLength(2);
    expect(await call("DEL", "c2")).toEqual({ code: 0, json: undefined });
    await server.restart();
  });

  it("give the blocks of a node that is gone to others, and say so in events", async () => {
    await agent.stop("SIGKILL");
    await server.kubectl("-n", NAMESPACE, "delete", "pod", "ipam-agent", "--force");
    await server.kubectl("delete", "node", "n1");
    await until("the blocks are quarantined", async () => {
      const states = (await listed("addressblocks")).items.map(
        ({ spec }: { spec: { state: string } }) => spec.state,
      );
      expect(states).toEqual(["Quarantined", "Quarantined"]);
    });
    await until("the blocks are deleted", async () =>
      expect((await listed("addressblocks")).items).toEqual([]),
    );
    const { items } = await listed("events.events.k8s.io", "--all-namespaces");
    expect(items.map(({ reason }: { reason: string }) => reason)).toContain("AddressBlockQuarantined");
  });
});
