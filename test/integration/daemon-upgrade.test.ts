import { readFileSync } from "node:fs";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ChurnNode } from "../churn/churn-node.ts";
import type { LivingPod } from "../churn/living-pod.ts";
import { ClusterNode } from "../cluster/cluster-node.ts";
import { BRIDGES, startSwitch, vhostPorts } from "../cluster/switch.ts";
import { addNetworkNamespace } from "../lab/network-namespace.ts";
import type { OvsDpdk } from "../lab/ovs-dpdk.ts";
import { type LabRun, openLabRun } from "../machine/lab-run.ts";
import { waitUntil } from "../machine/wait-until.ts";

/** Abandoned things are removed after this; what must stay is watched for longer. */
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

const JOURNALS = ["allocations", "ports"];

const journal = (kind: string) => join(node.recordsDirectory, kind, "journal");

/** The journals' files. */
const journals = () => Promise.all(JOURNALS.map((kind) => readFile(journal(kind), "utf8")));

/** Changes the journals while no daemon runs. */
async function changeJournals(change: (text: string) => string): Promise<void> {
  for (const kind of JOURNALS) await writeFile(journal(kind), change(await readFile(journal(kind), "utf8")));
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
  await waitUntil(async () => (await passes()) >= enough, { what: "ten passes" });
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
    { what: "nothing is left", everyMs: 100, detail: () => left },
  );
}

describe("a daemon that finds records of a newer release", () => {
  it("does not start, says what to do, and changes nothing; the newer one continues", async () => {
    const pod = await startPod();
    const before = await world(pod);
    await node.stopDaemon();
    await changeJournals((text) => text.replace('"version":1', '"version":9'));
    const records = await journals();
    await expect(node.startDaemon()).rejects.toThrow(
      /the journal has version 9.*run the newer release again/,
    );
    expect(await journals()).toEqual(records);
    expect(await world(pod)).toEqual(before);
    await changeJournals((text) => text.replace('"version":9', '"version":1'));
    await node.startDaemon();
    await untilSettled();
    expect(await world(pod)).toEqual(before);
    for (const wanted of pod.interfaces) await churn.del(pod, pod.sandbox, wanted);
    churn.forget(pod);
    await expectNothingLeft();
  });
});

describe("records that were damaged while their pod lives", () => {
  it("are set aside and reported: the pod's port stays, and goes with the pod", async () => {
    const pod = await startPod();
    const before = await world(pod);
    await node.stopDaemon();
    await changeJournals((text) => text.replaceAll('"pool"', '"pond"'));
    await node.startDaemon();
    await untilSettled();
    expect(await world(pod)).toEqual(before);
    expect(await metrics()).toMatch(/^vhostuser_unreadable_records [1-9]/m);
    churn.forget(pod);
    await waitUntil(async () => (await vhostPorts(ovs)).length === 0, {
      what: "the port of a pod that is gone is collected",
    });
  });
});
