// Claims and their status on a real API server, with the rights of the chart and no others.
import { randomUUID } from "node:crypto";
import { readdir } from "node:fs/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { claimTemplateOf } from "../../src/ctl/claim-template.ts";
import { ClaimStatusWriter } from "../../src/dra/claim-status.ts";
import { silentLogger } from "../../src/logging/logger.ts";
import type { PortRecord } from "../../src/records/port-record.ts";
import { systemClock } from "../../src/sync/clock.ts";
import { type LabRun, openLabRun } from "../machine/lab-run.ts";
import { DRIVER } from "../stand-in/dra/claim-object.ts";
import type { PodClaim } from "../stand-in/kubelet/dra-manager.ts";
import { ClaimsRig, DAEMON, FOREIGN } from "./claims-rig.ts";

const ROLE = "clusterrole/kube-vhostuser-dra";
const RESOURCE_NAME = "k8s.v1.cni.cncf.io/resourceName";
const READY = { conditions: [{ type: "Ready", status: "True", reason: "PortAttached" }] };

describe.skipIf(process.env["KUBECONFIG"])("a claim", () => {
  let run: LabRun;
  let rig: ClaimsRig;

  beforeAll(async () => {
    run = await openLabRun({ narrator: { say: (line) => console.log(line) } });
    rig = await ClaimsRig.open(run);
    await rig.startDriver();
  });
  afterAll(async () => {
    await rig?.close();
    await run?.close();
  });

  const untilStatus = (claim: PodClaim, wanted: object = READY) =>
    rig.until(`${claim.name} has its status`, async () => {
      expect(await rig.statusOf(claim)).toMatchObject(wanted);
      return true;
    });
  /** Claims that the node has something of. */
  const held = () =>
    rig.node.options.node.records.allocations
      .list()
      .map(({ holder }) => (holder.kind === "claim" ? holder.name : holder.kind));
  const warnings = () => rig.logged.filter((line) => /^(warn|error)/.test(line));
  /** kubelet restarts, and so does the daemon. */
  const restart = async () => {
    await rig.stopDriver();
    await rig.startDriver();
  };

  it("has our device's status, with its share, and keeps that of another driver", async () => {
    const shareID = randomUUID();
    const claim = await rig.allocate({ shareID });
    await rig.writeForeignStatus(claim, { temperature: 40 });
    await rig.prepareAgain(claim);
    await untilStatus(claim);
    expect(await rig.statusOf(claim)).toMatchObject({
      ...{ pool: "n1", device: "one", shareID, data: { bridge: "br0" } },
      networkData: { interfaceName: "net", hardwareAddress: expect.stringMatching(/^[0-9a-f:]{17}$/) },
    });
    expect(await rig.statusOf(claim, FOREIGN)).toMatchObject({ data: { temperature: 40 } });
    await rig.unprepare(claim);
    expect(held()).toEqual([]);
    expect(await readdir(rig.cdiDirectory)).toEqual([]);
  });

  it("needs every right that the chart gives, and no other", async () => {
    // A slice of an earlier release is deleted, one whose device is away is changed.
    const pool = { name: "n1", generation: 1, resourceSliceCount: 1 };
    await rig.server.apply({
      ...{ apiVersion: "resource.k8s.io/v1", kind: "ResourceSlice", metadata: { name: "an-earlier-name" } },
      spec: { driver: DRIVER, nodeName: "n1", pool, devices: [{ name: "old" }] },
    });
    await rig.until("it is gone", async () => !(await rig.offered()).slices.includes("an-earlier-name"));
    for (const [healthy, count] of [
      [false, 0],
      [true, 1],
    ] as const) {
      rig.node.devices.update({ healthy, uplink: {} });
      await rig.until("slices follow", async () => (await rig.offered()).devices.length === count);
    }
    const requests = await rig.server.requestsOf(DAEMON);
    expect(requests.filter(({ responseStatus: { code = 0 } = {} }) => code === 401 || code === 403)).toEqual(
      [],
    );
    const used = requests.map(
      ({ verb, objectRef: { resource, subresource } = {} }) =>
        `${verb} ${resource}${subresource === undefined ? "" : `/${subresource}`}`,
    );
    const { rules } = JSON.parse(await rig.server.kubectl("get", ROLE, "--output=json")) as {
      rules: { resources: string[]; verbs: string[] }[];
    };
    const given = rules.flatMap(({ resources, verbs }) =>
      verbs.flatMap((verb) => resources.map((resource) => `${verb} ${resource}`)),
    );
    // That one is asked for by the API server, within the patch of the status; a test below takes it away.
    expect([...new Set(used), "associated-node:patch resourceclaims/driver"].sort()).toEqual(given.sort());
  });

  it("can be of a template that vhostuserctl makes of a network, for either driver", async () => {
    const capabilities = { deviceID: true };
    for (const network of [
      { cniVersion: "1.1.0", name: "a", type: "kube-vhostuser", vlan: 100, capabilities },
      { cniVersion: "1.0.0", name: "b", type: "macvlan", master: "eth1", capabilities },
      { cniVersion: "1.0.0", name: "c", plugins: [{ type: "bridge", bridge: "br9" }, { type: "tuning" }] },
    ]) {
      const annotations = network.type === "kube-vhostuser" ? { [RESOURCE_NAME]: "vhostuser/one" } : {};
      const nad = {
        kind: "NetworkAttachmentDefinition",
        metadata: { name: network.name, namespace: "default", annotations },
        spec: { config: JSON.stringify(network) },
      };
      await rig.server.apply(claimTemplateOf(JSON.stringify(nad), "nad", "net1").template);
    }
    const names = await rig.server.kubectl(
      "get",
      "resourceclaimtemplates",
      "--namespace=default",
      "--output=name",
    );
    expect(
      names
        .trim()
        .split("\n")
        .map((one) => one.split("/")[1]),
    ).toEqual(["a", "b", "c"]);
  });

  it("has both drivers' status after both wrote it many times at once", async () => {
    const claim = await rig.prepare();
    await untilStatus(claim);
    const { shareID } = (await rig.statusOf(claim)) as { shareID: string };
    const client = rig.clientOf();
    const writer = new ClaimStatusWriter({ api: client, clock: systemClock, logger: silentLogger });
    const writes = 25;
    const ours = async () => {
      for (let mtu = 1_001; mtu <= 1_000 + writes; mtu++) {
        const port = { portName: "vhu-1", bridge: "br0", mtu, createdAt: 0 } as PortRecord;
        writer.report({ claim, devices: [{ pool: "n1", device: "one", shareID, port }] });
        await untilStatus(claim, { data: { mtu } });
      }
    };
    const theirs = async () => {
      for (let count = 1; count <= writes; count++) await rig.writeForeignStatus(claim, { count });
    };
    /** Reads, changes and writes the whole status, as a driver without server-side apply does. */
    const replaced = async () => {
      for (let count = 1; count <= writes; count++)
        await rig.replaceForeignStatus(claim, { temperature: count });
    };
    await Promise.all([ours(), theirs(), replaced()]);
    await writer.close();
    client.close();
    expect(await rig.statusOf(claim)).toMatchObject({ data: { mtu: 1_000 + writes } });
    expect((await rig.statusOf(claim, FOREIGN))?.["data"]).toBeDefined();
    await rig.unprepare(claim);
  });

  it("is unprepared where it was deleted, twice, and by a daemon that never heard of it", async () => {
    const claim = await rig.prepare();
    await rig.server.kubectl("-n", "tests", "delete", "resourceclaim", claim.name, "--wait=false");
    await restart();
    await rig.unprepare(claim);
    expect(held()).toEqual([]);
    await rig.node.kubelet.call("NodeUnprepareResources", DRIVER, [claim]);
    const unknown = { namespace: "tests", name: "never", uid: randomUUID() };
    await rig.node.kubelet.call("NodeUnprepareResources", DRIVER, [unknown]);
  });

  it("that was replaced by another one of its name is not prepared", async () => {
    const claim = await rig.allocate({ shareID: randomUUID() });
    const before = { ...claim, uid: randomUUID() };
    await expect(rig.prepareAgain(before)).rejects.toThrow("it was replaced by another one");
    expect(held()).toEqual([]);
  });

  it("waits for an API server that is away, and is unprepared without it", async () => {
    const [running, waiting] = [await rig.prepare(), await rig.allocate({ shareID: randomUUID() })];
    await rig.server.kill();
    await expect(rig.prepareAgain(waiting)).rejects.toThrow("kube-api-unavailable");
    await rig.unprepare(running);
    expect(held()).toEqual([]);
    await rig.server.restart();
    await rig.until("it is prepared", async () => (await rig.prepareAgain(waiting)).length > 0);
    await untilStatus(waiting);
    await rig.unprepare(waiting);
  });

  it("gets a status by the right to write this driver's only, and is prepared without it", async () => {
    const role = JSON.parse(await rig.server.kubectl("get", ROLE, "--output=json")) as {
      rules: { resources: string[] }[];
    };
    const index = role.rules.findIndex(({ resources }) => resources.includes("resourceclaims/driver"));
    const change = (operation: object) =>
      rig.server.kubectl("patch", ROLE, "--type=json", `--patch=${JSON.stringify([operation])}`);
    await change({ op: "remove", path: `/rules/${index}` });
    const { length } = warnings();
    const claim = await rig.prepare();
    await rig.until("the log says so", async () => warnings().length > length);
    expect(warnings().at(-1)).toMatch(/status cannot be written: .*resourceclaims\/driver/);
    expect(await rig.statusOf(claim)).toBeUndefined();
    await change({ op: "add", path: `/rules/${index}`, value: role.rules[index] });
    await untilStatus(claim);
    await rig.unprepare(claim);
  });

  it("of another node gets no status from this one", async () => {
    const { length } = warnings();
    const claim = await rig.prepare({ node: "n2", shareID: randomUUID() });
    await rig.until("the log says so", async () => warnings().length > length);
    expect(await rig.statusOf(claim)).toBeUndefined();
    await rig.unprepare(claim);
  });

  it("of a device for each socket has a status too, where the cluster cannot share devices", async () => {
    await rig.removeNode();
    await rig.server.restart({ DRAConsumableCapacity: false });
    await rig.startDriver();
    await rig.until("devices are offered", async () => (await rig.offered()).devices.length === 4);
    const claim = await rig.prepare({ device: "one--2" });
    await untilStatus(claim, { ...READY, device: "one--2" });
    // The gate is on after an upgrade of the cluster: what is prepared stays.
    await rig.server.restart();
    await restart();
    await rig.until("one device is offered", async () => (await rig.offered()).devices.length === 1);
    await rig.prepareAgain(claim);
    expect(held()).toEqual([claim.name]);
    await rig.unprepare(claim);
    expect(held()).toEqual([]);
  });

  it.each([
    // The two others depend on the first.
    [
      [
        "DRAResourceClaimDeviceStatus",
        "DRADeviceBindingConditions",
        "DRAResourceClaimGranularStatusAuthorization",
      ],
      false,
    ],
    [["DRAResourceClaimGranularStatusAuthorization"], true],
  ])("is prepared with the gates %s off", async (gates, hasStatus) => {
    await rig.removeNode();
    await rig.server.restart(Object.fromEntries(gates.map((gate) => [gate, false])));
    await rig.startDriver();
    const { length } = warnings();
    const patches = async () =>
      (await rig.server.requestsOf(DAEMON)).filter(({ objectRef }) => objectRef?.subresource === "status")
        .length;
    const before = await patches();
    const claim = await rig.prepare();
    await rig.until("the status was sent", async () => (await patches()) > before);
    if (hasStatus) await untilStatus(claim);
    else expect(await rig.statusOf(claim)).toBeUndefined();
    expect(warnings().slice(length)).toEqual([]);
    await rig.unprepare(claim);
  });
});
