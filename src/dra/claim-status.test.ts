import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type ApiRig, startApiRig } from "../../test/stand-in/api-server/api-rig.ts";
import type { Json } from "../../test/stand-in/api-server/object-store.ts";
import { Failure } from "../failure/failure.ts";
import type { PortRecord } from "../records/port-record.ts";
import { ClaimStatusWriter } from "./claim-status.ts";
import type { ClaimReport, DeviceReport } from "./dra-context.ts";

const DRIVER = "vhostuser.kube-vhostuser.io";
const FOREIGN = { driver: "other.example", pool: "p", device: "gpu" };
const SHARE = { pool: "worker-1", device: "red", shareID: "a671734a-e8e5-11e4-8fde-42010af09327" };

let rig: ApiRig;
let writer: ClaimStatusWriter;
let uid: string;

/** An allocated claim. @returns its uid */
function createClaim(): string {
  const results = [
    { driver: DRIVER, ...SHARE },
    { driver: DRIVER, pool: "worker-1", device: "blue--1" },
    FOREIGN,
  ];
  const status = { allocation: { devices: { results } } };
  return rig.server.store.create("tenant/resourceclaims", { metadata: { name: "net" }, status }).metadata.uid;
}

beforeEach(async () => {
  rig = await startApiRig();
  writer = new ClaimStatusWriter({ api: rig.client, clock: rig.clock, logger: rig.logger });
  uid = createClaim();
});
afterEach(async () => {
  await writer.close();
  await rig.close();
});

const port = {
  ...{ portName: "vhu-1", bridge: "br0", mtu: 9000, mac: "02:00:00:00:00:01", interfaceName: "net.1" },
  lease: { given: { ips: [{ address: "10.0.0.7/24" }] } },
  createdAt: Date.UTC(2025, 5, 1, 12),
} as PortRecord;
const problem = new Failure({ code: "bridge-missing", what: "there is no bridge br0", where: "switch" });
const reportOf = (...devices: DeviceReport[]): ClaimReport => ({
  claim: { namespace: "tenant", name: "net", uid },
  devices,
});
const ready: DeviceReport = { ...SHARE, port, socketPath: "/var/run/vhostuser/claims/net/net.1/vhost.sock" };
const failing: DeviceReport = { pool: "worker-1", device: "blue--1", problem };
const entries = () =>
  ((rig.server.store.get("tenant/resourceclaims", "net")["status"] as Json)["devices"] ??
    []) as readonly Json[];
const written = (count: number) =>
  rig.until(() => rig.server.answers.filter((one) => one === "PATCH 200").length === count, 100);
const condition = (index: number) => ((entries()[index]?.["conditions"] ?? []) as readonly Json[])[0];

describe("the status of a claim", () => {
  it("has an entry for each device: readiness, network data and the port", async () => {
    writer.report(reportOf(ready, failing));
    await written(1);
    expect(entries()).toEqual([
      {
        ...{ driver: DRIVER, ...SHARE },
        conditions: [
          {
            ...{ type: "Ready", status: "True", reason: "PortAttached", message: "" },
            lastTransitionTime: "2025-06-01T12:00:00Z",
          },
        ],
        data: { port: "vhu-1", bridge: "br0", mtu: 9000, socketPath: ready.socketPath },
        networkData: {
          ...{ interfaceName: "net.1", hardwareAddress: "02:00:00:00:00:01" },
          ips: ["10.0.0.7/24"],
        },
      },
      {
        ...{ driver: DRIVER, pool: "worker-1", device: "blue--1" },
        conditions: [
          {
            ...{ type: "Ready", status: "False", reason: "BridgeMissing" },
            message: "bridge-missing: there is no bridge br0 (switch)",
            lastTransitionTime: expect.stringMatching(/^2026-01-01T00:0\d:\d\dZ$/),
          },
        ],
      },
    ]);
  });

  it("keeps other drivers' entries, and loses ours that are not reported any more", async () => {
    const body = { apiVersion: "v1", kind: "ResourceClaim", metadata: {}, status: { devices: [FOREIGN] } };
    rig.server.store.apply("tenant/resourceclaims", "net", body, "other", false);
    writer.report(reportOf(ready, failing));
    await written(1);
    expect(entries().map(({ device }) => device)).toEqual(["gpu", "red", "blue--1"]);
    writer.report(reportOf(ready));
    await written(2);
    expect(entries().map(({ device }) => device)).toEqual(["gpu", "red"]);
  });

  it("is written once where nothing changed, and keeps the time since when a device fails", async () => {
    writer.report(reportOf(failing));
    await written(1);
    const since = condition(0)?.["lastTransitionTime"];
    await rig.clock.advance(3_600_000);
    writer.report(reportOf(failing));
    const other = new Failure({ code: "bridge-missing", what: "there is no bridge br1" });
    writer.report(reportOf({ ...failing, problem: other }));
    await written(2);
    expect(condition(0)).toMatchObject({
      lastTransitionTime: since,
      message: "bridge-missing: there is no bridge br1",
    });
    expect(rig.server.answers).toEqual(["PATCH 200", "PATCH 200"]);
  });

  it("is what was reported last, where a report waits for the API server", async () => {
    rig.server.illnesses.push({ kind: "status", status: 409 }, { kind: "status", status: 503 });
    writer.report(reportOf(failing));
    await rig.until(() => rig.server.answers.length === 1);
    writer.report(reportOf({ ...failing, problem: undefined, port }));
    await written(1);
    expect(condition(0)).toMatchObject({ status: "True" });
    expect(rig.logged).toEqual(["warn a claim's status cannot be written"]);
  });

  it.each([
    ["to change claims", "patch", "PATCH 403"],
    ["to change this driver's part, as since Kubernetes 1.36", "associated-node:patch", "PATCH 422"],
  ])("is written when the right %s is given later", async (_, right, answer) => {
    rig.server.verbs.delete(right);
    writer.report(reportOf(ready));
    await rig.until(() => rig.server.answers.length === 2, 100);
    expect(rig.server.answers).toEqual([answer, answer]);
    rig.server.verbs.add(right);
    await written(1);
    expect(rig.logged).toEqual(["warn a claim's status cannot be written"]);
  });

  it.each([
    ["is gone", () => rig.server.store.remove("tenant/resourceclaims", "net", {}), "PATCH 409"],
    [
      "was made again under the same name",
      () => {
        rig.server.store.remove("tenant/resourceclaims", "net", {});
        createClaim();
      },
      "PATCH 422",
    ],
  ] as const)("is not written to a claim that %s", async (_, replace, answer) => {
    const report = reportOf(ready);
    replace();
    writer.report(report);
    await rig.until(() => rig.server.answers.length === 1);
    for (let step = 0; step < 100; step++) await rig.clock.advance(1_000);
    expect(rig.server.answers).toEqual([answer]);
  });
});
