import { readFileSync } from "node:fs";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { writeRecord } from "../../src/files/record-file.ts";
import { ChurnNode } from "../churn/churn-node.ts";
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

describe("a daemon that finds records of a newer release", () => {
  it("does not start, says what to do, and changes nothing; the newer one goes on", async () => {
    const pod = await startPod();
    const before = await world(pod);
    await node.stopDaemon();
    for (const [file, body] of await recordFiles()) await writeRecord(file, 9, body);
    const records = await recordFiles();
    await expect(node.startDaemon()).rejects.toThrow(/the record has version 9.*run the newer release again/);
    expect(await recordFiles()).toEqual(records);
    expect(await world(pod)).toEqual(before);
    for (const [file, body] of records) await writeRecord(file, 1, { ...body, later: true });
    await node.startDaemon();
    await untilSettled();
    expect(await world(pod)).toEqual(before);
    for (const wanted of pod.interfaces) await churn.del(pod, pod.sandbox, wanted);
    churn.forget(pod);
    await expectNothingLeft();
  });
});

describe("a record that was damaged while its pod lives", () => {
  it("is set aside: the pod's port stays, and goes with the pod", async () => {
    const pod = await startPod();
    const before = await world(pod);
    await node.stopDaemon();
    for (const file of (await recordFiles()).keys()) await writeFile(file, "{");
    await node.startDaemon();
    await untilSettled();
    expect(await world(pod)).toEqual(before);
    churn.forget(pod);
    await waitUntil(async () => (await vhostPorts(ovs)).length === 0, {
      what: "the port of a pod that is gone is collected",
      limitMs: 60_000,
    });
  });
});
