import { randomUUID } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ClusterNode } from "../cluster/cluster-node.ts";
import { BRIDGES, startSwitch, vhostPorts } from "../cluster/switch.ts";
import type { OvsDpdk } from "../lab/ovs-dpdk.ts";
import { type LabRun, openLabRun } from "../machine/lab-run.ts";
import { waitUntil } from "../machine/wait-until.ts";
import { FakeApiServer } from "../stand-in/api-server/fake-api-server.ts";
import { DRIVER } from "../stand-in/dra/claim-object.ts";
import { deleteClaim, storeClaim } from "../stand-in/dra/stored-claim.ts";
import { type CdiEdits, resolveCdi } from "../stand-in/kubelet/cdi-runtime.ts";
import type { KubeletDevice, PodClaim } from "../stand-in/kubelet/dra-manager.ts";

const NAMESPACE = "tests";
/** Pods whose claims are prepared or unprepared when the daemon ends. */
const AT_ONCE = 7;

let run: LabRun;
let ovs: OvsDpdk;
let api: FakeApiServer;
let node: ClusterNode;
let pods = 0;

beforeAll(async () => {
  run = await openLabRun();
  ovs = await startSwitch(run, 0);
  api = await FakeApiServer.start();
  api.namespaces.add(NAMESPACE);
  run.cleanup.defer("stop the API server", () => api.close());
  node = await ClusterNode.start(run, {
    ...{ name: "a", bridge: BRIDGES.a, databaseSocket: ovs.databaseSocket, claims: { ports: 16, api } },
    // Every test ends when what it left is old enough to be reclaimed.
    reclaim: { intervalSeconds: 0.3, graceSeconds: 1 },
  });
  await node.dra.waitForDriver(DRIVER);
});
afterAll(() => run?.close());

interface ClaimPod {
  readonly name: string;
  readonly uid: string;
  readonly claim: PodClaim;
}

/** A pod with a claim that the scheduler has allocated and reserved, which kubelet has admitted. */
async function admit(results = 1): Promise<ClaimPod> {
  const name = `pod-${pods++}`;
  const uid = randomUUID();
  await node.kubelet.admitPod({ namespace: NAMESPACE, name, uid, containers: [{ name: "c" }] });
  const claim = storeClaim(api, {
    ...{ name: `claim-of-${name}`, namespace: NAMESPACE, podClaimName: "net", pods: [{ name, uid }] },
    results: Array.from({ length: results }, () => ({ pool: "a", device: "sockets" })),
  });
  return { name, uid, claim };
}

/** As kubelet's sync loop does: again until it succeeds. */
async function untilDone<Value>(work: () => Promise<Value>): Promise<Value> {
  for (let attempt = 0; attempt < 600; attempt++) {
    try {
      return await work();
    } catch (error) {
      expect(String(error)).toMatch(/UNAVAILABLE|CANCELLED|not registered|the daemon stops/);
      await delay(50);
    }
  }
  throw new Error("kubelet's call never succeeded");
}

const prepare = ({ uid, claim }: ClaimPod) => untilDone(() => node.dra.prepare(uid, DRIVER, [claim]));

/** The pod is over, and its claim deleted, as that of a template. */
async function end({ name, uid, claim }: ClaimPod): Promise<void> {
  await untilDone(() => node.dra.unprepare(uid, DRIVER));
  node.kubelet.removePod({ namespace: NAMESPACE, name });
  deleteClaim(api, claim);
}

const container = (devices: readonly KubeletDevice[]): CdiEdits =>
  resolveCdi(
    node.cdiDirectory,
    devices.flatMap((device) => device.cdi_device_ids),
  );

/** SIGKILL after `ms`, then the DaemonSet starts the daemon again. */
async function killAndRestart(ms: number): Promise<void> {
  await delay(ms);
  await node.killDaemon();
  await node.startDaemon();
}

/** Begins one for each pod, all within 60 ms, at the end of which the daemon is killed: so it is in each of their steps. */
async function killWhile<Result>(works: readonly (() => Promise<Result>)[]): Promise<Result[]> {
  const [results] = await Promise.all([
    Promise.all(works.map((work, index) => delay((60 * index) / (works.length - 1)).then(work))),
    killAndRestart(60),
  ]);
  return results;
}

async function expectNothingLeft(): Promise<void> {
  let left = "";
  const metadata = join(node.directory, "kubelet/plugins", DRIVER, "dra-device-metadata");
  await waitUntil(
    async () => {
      const { directories, records } = await node.leftovers();
      const files = [...(await readdir(node.cdiDirectory)), ...(await readdir(metadata))];
      const ports = await vhostPorts(ovs);
      left = `${directories} directories, ${records} records, files ${files.join()}, ports ${ports.join()}; ${readFileSync(node.daemonLog, "utf8").slice(-3000)}`;
      return directories + records + files.length + ports.length === 0;
    },
    { what: "nothing is left", detail: () => left },
  );
}

describe("the daemon killed with SIGKILL", () => {
  it.each([0, 3, 8, 15, 30])("%i ms into Prepare: the claim is prepared in the end, once", async (ms) => {
    const pod = await admit(2);
    const [devices] = await Promise.all([prepare(pod), killAndRestart(ms)]);
    expect(container(devices).env).toHaveLength(2);
    await waitUntil(async () => (await vhostPorts(ovs)).length === 2, { what: "two ports" });
    await end(pod);
    await expectNothingLeft();
  });

  it("during the Prepares of seven pods: each has a port and its files in the end, then none", async () => {
    const all: ClaimPod[] = [];
    while (all.length < AT_ONCE) all.push(await admit());
    const prepared = await killWhile(all.map((pod) => () => prepare(pod)));
    const mounts = prepared.flatMap((devices) => container(devices).mounts.map(({ hostPath }) => hostPath));
    expect(new Set(mounts).size).toBe(AT_ONCE * 2);
    await waitUntil(async () => (await vhostPorts(ovs)).length === AT_ONCE, { what: "the ports" });
    await Promise.all(all.map(end));
    await expectNothingLeft();
  });

  it("during the Unprepares of seven pods: all succeed, and everything goes", async () => {
    const all: ClaimPod[] = [];
    while (all.length < AT_ONCE) all.push(await admit());
    await Promise.all(all.map(prepare));
    await killWhile(all.map((pod) => () => end(pod)));
    await expectNothingLeft();
  });

  it("while a pod runs, and its port and files removed meanwhile: they come back without a call of kubelet", async () => {
    const pod = await admit();
    const devices = await prepare(pod);
    const edits = container(devices);
    const [port] = await vhostPorts(ovs);
    await node.killDaemon();
    await ovs.vsctl("del-port", port ?? "");
    await rm(node.cdiDirectory, { recursive: true });
    await node.startDaemon();
    await node.dra.waitForDriver(DRIVER);
    expect(container(devices)).toEqual(edits);
    await waitUntil(async () => (await vhostPorts(ovs))[0] === port, { what: "the port is back" });
    await end(pod);
    await expectNothingLeft();
  });

  it("with the node, whose directories and CDI files are gone after its boot: Prepare gives the same", async () => {
    const pod = await admit();
    const devices = await prepare(pod);
    const edits = container(devices);
    const ports = await vhostPorts(ovs);
    await node.dra.stop();
    await node.killDaemon();
    for (const name of await readdir(node.root)) await rm(join(node.root, name), { recursive: true });
    await rm(node.cdiDirectory, { recursive: true });
    await mkdir(node.cdiDirectory);
    node.dra.start();
    await node.startDaemon();
    expect(await prepare(pod)).toEqual(devices);
    expect(container(devices)).toEqual(edits);
    expect(await vhostPorts(ovs)).toEqual(ports);
    await end(pod);
    await expectNothingLeft();
  });

  it("and the pod gone without Unprepare meanwhile: everything of its claim is reclaimed", async () => {
    const pod = await admit();
    const devices = await prepare(pod);
    const [mount] = container(devices).mounts;
    await node.killDaemon();
    node.kubelet.removePod({ namespace: NAMESPACE, name: pod.name });
    await node.startDaemon();
    await expectNothingLeft();
    expect(existsSync(mount?.hostPath ?? "")).toBe(false);
    // Kubelet may ask all the same.
    await untilDone(() => node.dra.unprepare(pod.uid, DRIVER));
  });
});
