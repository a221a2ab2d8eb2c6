import { readFileSync } from "node:fs";
import { readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ChurnNode } from "../churn/churn-node.ts";
import type { LivingPod } from "../churn/living-pod.ts";
import { ClusterNode } from "../cluster/cluster-node.ts";
import { BRIDGES, startSwitch, vhostPorts } from "../cluster/switch.ts";
import { addNetworkNamespace } from "../lab/network-namespace.ts";
import type { OvsDpdk } from "../lab/ovs-dpdk.ts";
import { type LabRun, openLabRun } from "../machine/lab-run.ts";
import { waitUntil } from "../machine/wait-until.ts";
import { FakeApiServer } from "../stand-in/api-server/fake-api-server.ts";
import { writeServiceAccount } from "../stand-in/api-server/service-account.ts";

const LIMITED = {
  name: "limited",
  keys: { vlan: 9, bandwidth: { ingressRate: 80_000_000, ingressBurst: 8_000_000 } },
};

let run: LabRun;
let ovs: OvsDpdk;
let api: FakeApiServer;
let node: ClusterNode;
let churn: ChurnNode;
let pod: LivingPod;
let port: string;

beforeAll(async () => {
  run = await openLabRun();
  ovs = await startSwitch(run, 0);
  api = await FakeApiServer.start();
  run.cleanup.defer("stop the API server", () => api.close());
  api.namespaces.add("tests");
  const serviceAccountDirectory = join(run.directory, "serviceaccount");
  await writeServiceAccount(serviceAccountDirectory, api);
  node = await ClusterNode.start(run, {
    ...{ name: "a", bridge: BRIDGES.a, databaseSocket: ovs.databaseSocket },
    // No pass but the first: what is repaired was seen.
    reclaim: { intervalSeconds: 3600, graceSeconds: 3600 },
    keys: {
      observe: { address: "127.0.0.1", port: 0, interfaces: true },
      events: { enabled: true, apiServer: api.url, serviceAccountDirectory },
    },
  });
  churn = new ChurnNode(node, (await addNetworkNamespace(run, "pod")).path, 3_600_000);
  pod = await attached();
  port = (await vhostPorts(ovs))[0] ?? "";
  // Until then it might be an Allocate under way.
  await waitUntil(() => Date.now() - pod.admittedAt > 6_000, {
    what: "the allocation counts as settled",
  });
});
afterAll(() => run?.close());

async function attached(): Promise<LivingPod> {
  const one = await churn.admit([LIMITED]);
  if (one === undefined) throw new Error("no pod");
  for (const wanted of one.interfaces) {
    expect(await churn.add(one, one.sandbox, wanted)).toMatchObject({ exitCode: 0 });
  }
  return one;
}

const log = () => readFileSync(node.daemonLog, "utf8");

async function page(path: string): Promise<string> {
  const url = /"url":"([^"]+)"/.exec(log())?.[1];
  return (await fetch(`${url}${path}`)).text();
}

async function metric(series: string): Promise<number> {
  const text = await page("/metrics");
  const line = text.split("\n").find((one) => one.startsWith(`${series} `));
  return Number(line?.split(" ").at(-1) ?? Number.NaN);
}

const repairs = (kind: string) => metric(`vhostuser_reconcile_repairs_total{kind="${kind}"}`);

/** As CHECK, which asks for every column and flow, sees it. */
async function untilAsAttached(): Promise<void> {
  let answer = "";
  await waitUntil(
    async () => {
      const [wanted] = pod.interfaces;
      const { stdout, exitCode } = wanted ? await churn.check(pod, wanted) : { stdout: "none", exitCode: 1 };
      answer = stdout;
      return exitCode === 0;
    },
    {
      what: "the port is as it was attached",
      detail: () => `${answer}; ${log().slice(-3000)}`,
    },
  );
}

describe("a port that another program changes, with an hour to the next pass", () => {
  it.each([
    ["removed", async () => ovs.vsctl("del-port", port), "does not exist"],
    ["put into another VLAN", async () => ovs.vsctl("set", "Port", port, "tag=77"), "77"],
    [
      "stripped of its owner",
      async () => ovs.vsctl("clear", "Interface", port, "external_ids"),
      "external_ids",
    ],
    ["freed of its limit", async () => ovs.vsctl("clear", "Port", port, "qos"), "none"],
    [
      "given another limit",
      async () => {
        const qos = (await ovs.vsctl("get", "Port", port, "qos")).trim();
        await ovs.vsctl("set", "QoS", qos, "other_config:cir=1");
      },
      "cir=1",
    ],
    [
      "removed with its bridge, which comes back later",
      async () => {
        await ovs.vsctl("del-br", BRIDGES.a);
        await ovs.vsctl("add-br", BRIDGES.a, "--", "set", "Bridge", BRIDGES.a, "datapath_type=netdev");
      },
      "does not exist",
    ],
  ])("%s: is restored in a moment, with the reason in the log", async (_what, disturb, reason) => {
    const before = await repairs("port");
    await disturb();
    await waitUntil(async () => (await repairs("port")) > before, {
      what: "the repair is counted",
      detail: () => log().slice(-3000),
    });
    await untilAsAttached();
    const line = log()
      .split("\n")
      .findLast((line) => line.includes("restored a port"));
    expect(line).toContain(reason);
    expect(line).toContain(`"port":"${port}"`);
  });

  it("lost with the switch's whole database: is restored once the operator has made the bridge again", async () => {
    await ovs.startEmpty();
    await ovs.vsctl("add-br", BRIDGES.a, "--", "set", "Bridge", BRIDGES.a, "datapath_type=netdev");
    await untilAsAttached();
  });
});

describe("what can be seen of it from outside", () => {
  it("is events about the pod: attached, and repaired again and again, which is one with a count", async () => {
    const events = () => api.events;
    const ofPod = { kind: "Pod", namespace: "tests", name: pod.name, uid: pod.uid };
    await waitUntil(() => events().some(({ reason }) => reason === "InterfaceRepaired"), {
      what: "the repair is an event",
      detail: () => api.answers.join(),
    });
    expect(events()).toMatchObject([
      { reason: "InterfaceAttached", regarding: ofPod, reportingInstance: "kube-vhostuser-x7k2p" },
      { reason: "InterfaceRepaired", regarding: ofPod, note: expect.stringContaining("does not exist") },
    ]);
    // The API server has it a moment before the daemon knows.
    await expect.poll(() => metric('vhostuser_events_total{outcome="posted"}')).toBe(2);
    await expect.poll(() => metric('vhostuser_events_total{outcome="merged"}')).toBeGreaterThan(3);
  });

  it("is a series for the pod's interface, which no guest has taken up", async () => {
    const labels = `pool="sockets",pod_namespace="tests",pod_name="${pod.name}",interface="net1"`;
    // A page of a moment ago may still be served, from before the port was there again.
    await expect
      .poll(() => page("/metrics/interfaces"))
      .toContain(`vhostuser_interface_link_up{${labels}} 0`);
    expect(await page("/metrics")).not.toContain(pod.name);
  });
});

describe("files that another program changes, with an hour to the next pass", () => {
  it("come back, with the reason in the log", async () => {
    const directory = join(node.deviceInfoDirectory, "dp");
    const [name = ""] = await readdir(directory);
    const file = join(directory, name);
    const before = await readFile(file, "utf8");
    const other = join(node.deviceInfoDirectory, "other.json");
    await writeFile(other, "{}");
    // Each in one step: otherwise the daemon could repair it in the middle, and then again.
    for (const disturb of [() => rm(file), () => rename(other, file)]) {
      await disturb();
      await waitUntil(async () => (await readFile(file, "utf8").catch(() => "")) === before, {
        what: "the device-info is back",
      });
    }
    const inside = await readdir(pod.hostPath);
    const gone = join(dirname(pod.hostPath), "gone");
    await rename(pod.hostPath, gone);
    await rm(gone, { recursive: true });
    await waitUntil(async () => (await readdir(pod.hostPath).catch(() => [])).length === inside.length, {
      what: "the allocation's directory is back",
    });
    // They are back a moment before that is counted.
    await waitUntil(async () => (await repairs("device-info")) >= 2 && (await repairs("directory")) >= 1, {
      what: "the repairs are counted",
    });
    expect(log()).toContain("restored a device's device-info");
    expect(log()).toContain("restored the directories of an allocation");
    expect(await repairs("device-info")).toBe(2);
    expect(await repairs("directory")).toBe(1);
  });
});

describe("what the daemon does itself", () => {
  it("is not taken for a change by another program", async () => {
    const calls = 'vhostuser_dataplane_call_duration_seconds_count{call="ensure-port",outcome="ok"}';
    const [before, repaired] = [await metric(calls), await repairs("port")];
    for (let count = 0; count < 5; count++) {
      const other = await attached();
      for (const wanted of other.interfaces) await churn.del(other, other.sandbox, wanted);
      churn.forget(other);
    }
    // What would have been seen of it is seen before this.
    await ovs.vsctl("del-port", port);
    await waitUntil(async () => (await repairs("port")) > repaired, {
      what: "the repair is counted",
    });
    expect(await metric(calls)).toBe(before + 5 + 1);
    expect(await repairs("port")).toBe(repaired + 1);
  });
});
