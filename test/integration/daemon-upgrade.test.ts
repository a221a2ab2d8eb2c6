import { readFileSync } from "node:fs";
import { readdir, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { writeRecord } from "../../src/files/record-file.ts";
import { ChurnNode, newSandbox } from "../churn/churn-node.ts";
import type { LivingPod } from "../churn/living-pod.ts";
import { ClusterNode } from "../cluster/cluster-node.ts";
import { BRIDGES, startSwitch, vhostPorts } from "../cluster/switch.ts";
import { addNetworkNamespace } from "../lab/network-namespace.ts";
import type { OvsDpdk } from "../lab/ovs-dpdk.ts";
import { type LabRun, openLabRun } from "../machine/lab-run.ts";
import { waitUntil } from "../machine/wait-until.ts";

/** Abandoned things go after this; whoever is to stay must stay for longer. */
const GRACE_SECONDS = 1;
const PLAIN = { name: "plain", keys: { mtu: 1500 } };

let run: LabRun;
let ovs: OvsDpdk;
let node: ClusterNode;
let churn: ChurnNode;

beforeAll(async () => {
  run = await openLabRun();
  ovs = await startSwitch(run, 0);
  node = await ClusterNode.start(run, {
    ...{ name: "a", bridge: BRIDGES.a, databaseSocket: ovs.databaseSocket },
    reclaim: { intervalSeconds: 0.3, graceSeconds: GRACE_SECONDS },
  });
  churn = new ChurnNode(node, (await addNetworkNamespace(run, "pod")).path, GRACE_SECONDS * 1000);
});
afterAll(() => run?.close());

type Body = Readonly<Record<string, unknown>>;

/** Every record on disk: its file and its body. */
async function recordFiles(): Promise<ReadonlyMap<string, Body>> {
  const directories = ["allocations", "ports"].map((kind) => join(node.recordsDirectory, kind));
  const found = new Map<string, Body>();
  for (const directory of directories) {
    for (const name of await readdir(directory)) {
      const file = join(directory, name);
      // The daemon may have removed it meanwhile.
      const text = await readFile(file, "utf8").catch(() => undefined);
      if (text !== undefined) found.set(file, (JSON.parse(text) as { body: Body }).body);
    }
  }
  return found;
}

/** Another release has run in between, which wrote every record in its way. */
async function replaceDaemon(rewrite: (file: string, body: Body) => Promise<unknown>): Promise<void> {
  await node.stopDaemon();
  for (const [file, body] of await recordFiles()) await rewrite(file, body);
  await node.startDaemon();
}

/** All that a living pod and its guest notice. */
async function world(pod: LivingPod): Promise<object> {
  const dp = join(node.deviceInfoDirectory, "dp");
  const infos = (await readdir(dp)).sort();
  return {
    interfaces: await ovs.vsctl("--columns=_uuid,name,type,options,ofport,external_ids", "list", "Interface"),
    directory: (await readdir(pod.hostPath)).sort(),
    infos: await Promise.all(infos.map(async (file) => [file, await readFile(join(dp, file), "utf8")])),
  };
}

async function startPod(): Promise<LivingPod> {
  const pod = await churn.admit([PLAIN]);
  if (pod === undefined) throw new Error("no pod");
  await addTo(pod);
  return pod;
}

async function addTo(pod: LivingPod): Promise<void> {
  for (const wanted of pod.interfaces) {
    expect(await churn.add(pod, pod.sandbox, wanted)).toMatchObject({ exitCode: 0 });
  }
}

const log = () => readFileSync(node.daemonLog, "utf8");

async function metrics(): Promise<string> {
  const url = /"url":"([^"]+)"/.exec(log())?.[1];
  return (await fetch(`${url}/metrics`)).text();
}

const passes = async () => {
  const counts = (await metrics()).matchAll(/^vhostuser_reconcile_passes_total\{.*\} (\d+)$/gm);
  return [...counts].reduce((sum, [, count]) => sum + Number(count), 0);
};

/** As many passes as it takes to remove what is abandoned, and more. */
async function untilSettled(): Promise<void> {
  const enough = (await passes()) + 10;
  await waitUntil(async () => (await passes()) >= enough, { what: "ten passes", limitMs: 60_000 });
}

async function expectNothingLeft(): Promise<void> {
  let left = "";
  await waitUntil(
    async () => {
      const { directories, records } = await node.leftovers();
      const ports = await vhostPorts(ovs);
      left = `${directories} directories, ${records} records, ports ${ports.join(" ")}; ${log().slice(-3000)}`;
      return directories + records + ports.length === 0;
    },
    { what: "nothing is left", limitMs: 60_000, everyMs: 100, detail: () => left },
  );
}

describe("a downgrade to a release that does not know the records of living pods", () => {
  it("leaves everything as it is, says so, serves other pods, and lets go at DEL; the newer one cleans up", async () => {
    const pod = await startPod();
    const [wanted] = pod.interfaces;
    if (wanted === undefined) throw new Error("no interface");
    const before = await world(pod);
    await replaceDaemon((file, body) => writeRecord(file, 9, { ...body, later: true }));
    const foreign = await recordFiles();
    expect(await world(pod)).toEqual(before);
    expect(log().match(/newer release: version 9/g)).toHaveLength(2);
    expect(await metrics()).toMatch(/^vhostuser_unreadable_records 2$/m);

    // The verbs say why, and change nothing.
    const why = { code: 110, msg: expect.stringContaining("another release") };
    const check = await churn.check(pod, wanted);
    expect(JSON.parse(check.stdout)).toMatchObject(why);
    for (const sandbox of [pod.sandbox, newSandbox()]) {
      expect(JSON.parse((await churn.add(pod, sandbox, wanted)).stdout)).toMatchObject(why);
    }
    await untilSettled();
    expect(await world(pod)).toEqual(before);
    expect(await recordFiles()).toEqual(foreign);

    // Others are not held up.
    const other = await startPod();
    expect(other.interfaces[0]?.device).not.toBe(wanted.device);
    for (const one of other.interfaces) await churn.del(other, other.sandbox, one);
    churn.forget(other);

    // Kubelet may take a pod for gone while a guest is there; the records may be of one that lives.
    node.kubelet.removePod({ namespace: "tests", name: pod.name });
    await waitUntil(async () => (await recordFiles()).size === foreign.size, {
      what: "what the other pod left is gone",
      limitMs: 60_000,
    });
    await untilSettled();
    expect(await recordFiles()).toEqual(foreign);
    expect(await vhostPorts(ovs)).toHaveLength(1);

    expect(await churn.del(pod, pod.sandbox, wanted)).toMatchObject({ exitCode: 0 });
    expect(await vhostPorts(ovs)).toEqual([]);
    expect(await recordFiles()).toEqual(foreign);

    // The newer release is back, and finds the pod gone.
    await replaceDaemon((file, body) => writeRecord(file, 1, body));
    await expectNothingLeft();
  });
});

describe("an upgrade from a release that wrote less, and elsewhere", () => {
  it("keeps the ports of living pods, answers for them, and removes them with their pods", async () => {
    const pod = await startPod();
    const [wanted] = pod.interfaces;
    if (wanted === undefined) throw new Error("no interface");
    const before = await world(pod);
    await replaceDaemon(async (file, body) => {
      // As test/fixtures/records/first has them.
      const { settings: _, dataplane: _switch, socketServer: _server, ...less } = body;
      await writeRecord(file, 1, less);
      await rename(file, file.replace("@", "."));
    });
    await untilSettled();
    expect(await world(pod)).toEqual(before);
    expect(await metrics()).toMatch(/^vhostuser_unreadable_records 0$/m);
    expect(await churn.check(pod, wanted)).toMatchObject({ exitCode: 0 });
    expect(await churn.add(pod, pod.sandbox, wanted)).toMatchObject({ exitCode: 0 });
    expect(await churn.del(pod, pod.sandbox, wanted)).toMatchObject({ exitCode: 0 });
    churn.forget(pod);
    await expectNothingLeft();
  });

  it("gives a pod whose sandbox dies meanwhile its new one", async () => {
    const pod = await startPod();
    await replaceDaemon(async (file, body) => {
      const { settings: _, ...less } = body;
      await writeRecord(file, 1, less);
    });
    pod.sandbox = newSandbox();
    await addTo(pod);
    expect(await vhostPorts(ovs)).toHaveLength(1);
    for (const wanted of pod.interfaces) await churn.del(pod, pod.sandbox, wanted);
    churn.forget(pod);
    await expectNothingLeft();
  });
});

describe("a record that a disk has torn while its pod lives", () => {
  it("is not mistaken for one of another release: the pod's port stays, and goes with the pod", async () => {
    const pod = await startPod();
    const before = await world(pod);
    await replaceDaemon((file) => writeFile(file, "{"));
    await untilSettled();
    expect(await world(pod)).toEqual(before);
    churn.forget(pod);
    await waitUntil(async () => (await vhostPorts(ovs)).length === 0, {
      what: "the port of a pod that is gone is collected",
      limitMs: 60_000,
    });
  });
});
