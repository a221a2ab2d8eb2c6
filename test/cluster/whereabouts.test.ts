// The real executable of whereabouts and our IPAM side by side on a real API server, with the rights of the chart.
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { compileShim } from "../../scripts/build/compile-shim.ts";
import type { Child } from "../machine/child.ts";
import { type LabRun, openLabRun } from "../machine/lab-run.ts";
import { runProgram } from "../machine/run-program.ts";
import { waitUntilSucceeds } from "../machine/wait-until.ts";
import { startShim } from "../shim/run-shim.ts";
import { ApiServer } from "./api-server.ts";
import { NAMESPACE, startIpamProgram } from "./ipam-program.ts";
import { kubernetesParts, PROJECT, WHEREABOUTS_VARIABLE } from "./kubernetes-parts.ts";
import { whereaboutsDefinitions, whereaboutsIpam } from "./whereabouts.ts";

const WHEREABOUTS = process.env[WHEREABOUTS_VARIABLE];
const RANGE = "10.29.0.0/27";
const CONTROLLER = "ipam-controller";

interface Answer {
  readonly code: number | null;
  readonly address: string | undefined;
  readonly text: string;
}

describe.skipIf(process.env["KUBECONFIG"] || WHEREABOUTS === undefined)("beside whereabouts", () => {
  let run: LabRun;
  let server: ApiServer;
  let executable: string;
  let ipam: object;
  const children: Child[] = [];
  /** Pods that live, and the addresses that they have. */
  const living = new Map<string, string>();

  beforeAll(async () => {
    run = await openLabRun({ narrator: { say: (line) => console.log(line) } });
    executable = await compileShim({
      executable: "kube-vhostuser-ipam",
      output: join(run.directory, "ipam"),
    });
    server = await ApiServer.start(run, kubernetesParts(process.env, ["etcd", "apiServer"]));
    await server.apply(...whereaboutsDefinitions(), networkDefinition());
    await server.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s");
    ipam = await whereaboutsIpam(server, join(run.directory, "whereabouts.d"), RANGE);
    await server.apply(
      ...[NAMESPACE, "tests"].map((name) => ({ apiVersion: "v1", kind: "Namespace", metadata: { name } })),
      { apiVersion: "v1", kind: "Node", metadata: { name: "n1" } },
    );
    await server.sh(
      `helm install kube-vhostuser deploy/chart/kube-vhostuser -n ${NAMESPACE} --set ipam.enabled=true,ipam.whereabouts.enabled=true`,
    );
    await setNetwork("whereabouts");
    children.push(await startIpamProgram(run, server, CONTROLLER, ["--whereabouts", "kube-system"]));
    const state = ["--state", join(run.directory, "state"), "--socket", join(run.directory, "ipam.sock")];
    children.push(await startIpamProgram(run, server, "ipam-agent", [...state, "--netns", run.directory]));
    await until("the space is there", async () => {
      await server.kubectl("get", "addressspace", "default");
    });
  });
  afterAll(() => run?.close());

  async function setNetwork(type: "whereabouts" | "ours"): Promise<void> {
    const ours = { type: "kube-vhostuser-ipam", pools: ["blue"] };
    const config = {
      cniVersion: "1.0.0",
      name: "blue",
      type: "macvlan",
      ipam: type === "ours" ? ours : ipam,
    };
    await server.apply({
      ...{ apiVersion: "k8s.cni.cncf.io/v1", kind: "NetworkAttachmentDefinition" },
      metadata: { name: "blue", namespace: "tests" },
      spec: { config: JSON.stringify(config) },
    });
  }

  function envOf(verb: string, pod: string) {
    const args = `IgnoreUnknown=1;K8S_POD_NAMESPACE=tests;K8S_POD_NAME=${pod};K8S_POD_UID=uid-of-${pod}`;
    // Where the agent cannot look whether the network namespace is there, the pod is not taken for one that has ended.
    const netns = `/run/elsewhere/${pod}`;
    const target = { CNI_CONTAINERID: `c-${pod}`, CNI_IFNAME: "net1", CNI_NETNS: netns };
    return { CNI_COMMAND: verb, CNI_ARGS: args, CNI_PATH: "/none", ...target };
  }

  function answerOf(code: number | null, stdout: string): Answer {
    const { ips } = (stdout === "" ? {} : JSON.parse(stdout)) as { ips?: { address: string }[] };
    return { code, address: ips?.[0]?.address.split("/")[0], text: stdout };
  }

  async function whereabouts(verb: "ADD" | "DEL", pod: string): Promise<Answer> {
    const input = JSON.stringify({ cniVersion: "1.0.0", name: "blue", type: "macvlan", ipam });
    const call = runProgram(WHEREABOUTS ?? "", [], { env: { ...envOf(verb, pod), NODENAME: "n1" }, input });
    // It prints its errors on stdout, and ends with 1.
    const [code, stdout] = await call.then(
      (ended) => [0, ended.stdout] as const,
      (error: unknown) => [1, JSON.stringify({ msg: String(error) })] as const,
    );
    return noted(verb, pod, answerOf(code, stdout));
  }

  async function ours(verb: "ADD" | "DEL", pod: string): Promise<Answer> {
    const section = { type: "kube-vhostuser-ipam", pools: ["blue"] };
    const stdin = JSON.stringify({ cniVersion: "1.0.0", name: "blue", type: "macvlan", ipam: section });
    const env = { ...envOf(verb, pod), KUBE_VHOSTUSER_IPAM_SOCKET: join(run.directory, "ipam.sock") };
    const { code, stdout } = await startShim({ executable }, { env, stdin }).ended;
    return noted(verb, pod, answerOf(code, stdout));
  }

  /** Every address has one pod. */
  function noted(verb: string, pod: string, answer: Answer): Answer {
    if (verb === "DEL") living.delete(pod);
    if (answer.address === undefined) return answer;
    const holders = [...living].flatMap(([one, address]) => (address === answer.address ? [one] : []));
    expect(holders, `${answer.address} is given to ${pod}`).toEqual([]);
    living.set(pod, answer.address);
    return answer;
  }

  const until = (what: string, poll: () => Promise<void>): Promise<void> => {
    const waiting = waitUntilSucceeds(poll, { what, limitMs: 400_000, everyMs: 500 });
    return Promise.race([waiting, ...children.map(({ died }) => died)]);
  };
  const json = async (...args: readonly string[]) =>
    JSON.parse(await server.kubectl("get", ...args, "--output", "json"));
  const conditionOf = async (type: string) =>
    (await json("addresspool", "blue")).status.conditions.find((one: { type: string }) => one.type === type);
  const left = async () =>
    (
      await runProgram(
        process.execPath,
        [
          ...["src/ctl/main.ts", "ip", "whereabouts", "--api-server", server.url],
          ...["--service-account", join(run.directory, `${NAMESPACE}-${CONTROLLER}`)],
        ],
        { cwd: PROJECT },
      ).catch((error: unknown) => ({ stdout: String(error) }))
    ).stdout;

  it("an address that is kept from whereabouts is not handed out by it", async () => {
    expect((await whereabouts("ADD", "old-1")).address).toBe("10.29.0.1");
    expect((await whereabouts("ADD", "old-2")).address).toBe("10.29.0.2");
    await server.apply({
      ...{ apiVersion: "ipam.kube-vhostuser.io/v1alpha1", kind: "AddressPool", metadata: { name: "blue" } },
      spec: { subnets: [{ cidr: RANGE, ranges: ["10.29.0.16/28"] }], whereabouts: {}, cooldownSeconds: 0 },
    });
    // Nothing is handed out before the import.
    expect((await ours("ADD", "early")).code).toBe(1);
    await until("the upper half is imported", async () => {
      expect(await conditionOf("Imported")).toMatchObject({ status: "True" });
    });
    expect((await whereabouts("ADD", "old-3")).address).toBe("10.29.0.3");
  });

  it("both hand out of one range, whose pods keep their addresses when we get all of it", async () => {
    await until("our ADD succeeds", async () => expect((await ours("ADD", "new-1")).code).toBe(0));
    const spec = { subnets: [{ cidr: RANGE }] };
    await server.kubectl("patch", "addresspool", "blue", "--type=merge", "--patch", JSON.stringify({ spec }));
    await until("the rest is kept from whereabouts", async () => {
      const { allocations } = (await json("-n", "kube-system", "ippool", "10.29.0.0-27")).spec;
      expect(Object.keys(allocations)).toHaveLength(30);
    });
    const refused = await whereabouts("ADD", "old-4");
    expect(refused.address, refused.text).toBeUndefined();
    expect(await left()).toMatch(/tests\/old-1[\s\S]*cannot be removed/);
    await setNetwork("ours");
    await until("all is imported", async () => {
      const { status, message } = await conditionOf("Imported");
      expect([status, message]).toEqual(["True", "Pods still have 3 addresses of whereabouts"]);
    });
    for (let count = 2; count <= 10; count++) await ours("ADD", `new-${count}`);
    expect([...living.values()].filter((address) => Number(address.split(".")[3]) < 16)).toHaveLength(3);
  });

  it("its addresses are ours when its pods are gone, and then it can be removed", async () => {
    for (const pod of ["old-1", "old-2", "old-3"]) await whereabouts("DEL", pod);
    await until("no block is left to whereabouts", async () => {
      const { items } = await json("addressblocks", "-l", "ipam.kube-vhostuser.io/owner=Foreign");
      expect(items).toEqual([]);
    });
    for (let count = 11; count <= 20; count++)
      await until(`new-${count} has an address`, async () => {
        expect((await ours("ADD", `new-${count}`)).code).toBe(0);
      });
    expect([...living.values()]).toContain("10.29.0.1");
    expect(await left()).toMatch(/can be removed/);
    await server.kubectl(
      "patch",
      "addresspool",
      "blue",
      "--type=json",
      "--patch",
      '[{"op":"remove","path":"/spec/whereabouts"}]',
    );
  });

  it("no right is needed that the chart does not give", async () => {
    const requests = await server.requestsOf(
      `system:serviceaccount:${NAMESPACE}:kube-vhostuser-${CONTROLLER}`,
    );
    const refused = requests.filter(({ responseStatus }) =>
      [401, 403, 422].includes(responseStatus?.code ?? 0),
    );
    expect(requests.length).toBeGreaterThan(0);
    expect(refused).toEqual([]);
  });
});

function networkDefinition(): object {
  const names = {
    ...{ plural: "network-attachment-definitions", singular: "network-attachment-definition" },
    kind: "NetworkAttachmentDefinition",
  };
  const schema = { openAPIV3Schema: { type: "object", "x-kubernetes-preserve-unknown-fields": true } };
  return {
    ...{ apiVersion: "apiextensions.k8s.io/v1", kind: "CustomResourceDefinition" },
    metadata: { name: "network-attachment-definitions.k8s.cni.cncf.io" },
    spec: {
      ...{ group: "k8s.cni.cncf.io", scope: "Namespaced", names },
      versions: [{ name: "v1", served: true, storage: true, schema }],
    },
  };
}
