// ResourceSlices of the driver on a real API server, with the rights and the admission policy of the chart and no others.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { KubeObject } from "../../src/kube-api/client.ts";
import { type LabRun, openLabRun } from "../machine/lab-run.ts";
import { DRIVER } from "../stand-in/dra/claim-object.ts";
import { ClaimsRig, DAEMON, SLICES } from "./claims-rig.ts";

const SLICE = `n1-${DRIVER}-00000`;

describe.skipIf(process.env["KUBECONFIG"])("slices", () => {
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

  const untilOffered = (count: number) =>
    rig.until(`${count} devices are offered`, async () => (await rig.offered()).devices.length === count);
  /** As kubelet does when it starts, and 30 s after the driver's connection was lost. */
  const wipe = () =>
    rig.server.kubectl(
      ...["delete", "resourceslices", "--field-selector=spec.nodeName=n1"],
      ...["--as=system:node:n1", "--as-group=system:nodes"],
    );
  /** Requests of the daemon that were no reads. */
  const writes = async () =>
    (await rig.server.requestsOf(DAEMON)).filter(({ verb }) => !["get", "list", "watch"].includes(verb));

  it("are published once, for a device that claims share", async () => {
    await untilOffered(1);
    const { slices, devices } = await rig.offered();
    expect(slices).toEqual([SLICE]);
    expect(devices).toMatchObject([
      {
        ...{ name: "one", allowMultipleAllocations: true },
        capacity: { ports: { value: "4", requestPolicy: { default: "1", validValues: ["1"] } } },
        attributes: {
          ...{ bridge: { string: "br0" }, switch: { string: "ovs-dpdk" } },
          "resource.kubernetes.io/pciBusID": { string: "0000:3b:00.1" },
          "resource.kubernetes.io/pcieRoot": { string: "pci0000:3a" },
        },
      },
    ]);
    expect(rig.logged.filter((line) => !line.startsWith("info"))).toEqual([]);
  });

  it("come back after kubelet's wipe, also where that was while the API server went away", async () => {
    await wipe();
    await untilOffered(1);
    await wipe();
    await rig.server.restart();
    await untilOffered(1);
    await rig.server.kill();
    rig.node.devices.update({ healthy: false, uplink: {} });
    await rig.server.restart();
    await untilOffered(0);
    expect((await rig.offered()).slices).toEqual([SLICE]);
    rig.node.devices.update({ healthy: true, uplink: {} });
    await untilOffered(1);
  });

  it("stay while the next daemon takes over and this one ends", async () => {
    const { length } = await writes();
    const stop = await rig.startSuccessor();
    await rig.stopDriver();
    await stop();
    await rig.startDriver();
    // The probe of what the server can do is a dry run, which the log has as a create.
    const since = (await writes()).slice(length);
    expect(since.map(({ verb }) => verb)).not.toContain("delete");
    expect((await rig.offered()).slices).toEqual([SLICE]);
  });

  it("are replaced, where an earlier release published them under another name", async () => {
    const spec = {
      ...{ driver: DRIVER, nodeName: "n1", devices: [{ name: "old" }] },
      pool: { name: "n1", generation: 1, resourceSliceCount: 1 },
    };
    const metadata = { name: "an-earlier-name" };
    await rig.server.apply({ apiVersion: "resource.k8s.io/v1", kind: "ResourceSlice", metadata, spec });
    await rig.until("it is gone", async () => (await rig.offered()).slices.join() === SLICE);
  });

  it("have more than one object where there are more than 128 devices, all of one generation", async () => {
    await rig.removeNode();
    await rig.server.restart({ DRAConsumableCapacity: false });
    await rig.startDriver({ ports: 200, forClaims: 150 });
    await untilOffered(150);
    const { slices, devices } = await rig.offered();
    expect(slices).toHaveLength(2);
    expect(new Set(devices.map(({ name }) => name)).size).toBe(150);
    const line = "warn the cluster cannot share a device among claims, publishing one device for each socket";
    expect(rig.logged.filter((one) => one.startsWith(line))).toHaveLength(1);
    const generations = await rig.server.kubectl(
      ...["get", "resourceslices", "--output", "jsonpath={.items[*].spec.pool.generation}"],
    );
    expect(new Set(generations.split(" ")).size).toBe(1);
  });

  it("are of the shared device again, when the gate is on and the daemon starts", async () => {
    await rig.removeNode();
    await rig.server.restart();
    await rig.startDriver();
    await untilOffered(1);
    expect((await rig.offered()).slices).toEqual([SLICE]);
  });

  it("are the same with every other gate off that has to do with devices", async () => {
    await rig.removeNode();
    const gates = ["DRAPartitionableDevices", "DRADeviceTaints", "DRADeviceBindingConditions"];
    await rig.server.restart(Object.fromEntries(gates.map((gate) => [gate, false])));
    await rig.server.kubectl("delete", "resourceslices", "--all");
    await rig.startDriver();
    await untilOffered(1);
    await rig.server.restart();
  });

  describe("are the node's own:", () => {
    const signal = () => AbortSignal.timeout(20_000);
    const own = (changes: { metadata?: object; spec?: object; pool?: object } = {}): KubeObject => ({
      ...{ apiVersion: "resource.k8s.io/v1", kind: "ResourceSlice" },
      metadata: { name: `n1-${DRIVER}-00001`, ...changes.metadata },
      spec: {
        ...{ driver: DRIVER, nodeName: "n1", ...changes.spec },
        pool: { name: "n1", generation: 1, resourceSliceCount: 1, ...changes.pool },
      },
    });
    /** A slice of the other node's daemon. */
    const foreign = () =>
      own({ metadata: { name: `n2-${DRIVER}-00000` }, spec: { nodeName: "n2" }, pool: { name: "n2" } });
    const tryCreate = async (object: KubeObject, directory?: string) => {
      const client = rig.clientOf(directory);
      try {
        await client.create(SLICES, object, signal(), { isDryRun: true });
        return "created";
      } catch (error) {
        return String(error);
      } finally {
        client.close();
      }
    };

    it.each([
      ["another node", { spec: { nodeName: "n2" } }, "must not write slices of another node"],
      [
        "all nodes",
        { spec: { nodeName: undefined, allNodes: true } },
        "must not write slices of another node",
      ],
      ["another driver", { spec: { driver: "gpu.example.com" } }, "must not write slices of another driver"],
      ["another pool", { pool: { name: "n2" } }, "must not write slices of another pool"],
      [
        "a name of another node",
        { metadata: { name: `n2-${DRIVER}-00000` } },
        "must begin with it and the driver",
      ],
    ])("one with %s is refused", async (_, changes, words) => {
      expect(await tryCreate(own())).toBe("created");
      expect(await tryCreate(own(changes))).toContain(words);
    });

    it("a token that names no node is refused", async () => {
      const directory = await rig.server.serviceAccountOf(rig.daemonOf("n1"), false);
      expect(await tryCreate(own(), directory)).toContain("names no node");
    });

    it("that of another node can be neither changed nor deleted", async () => {
      await rig.server.apply(foreign());
      const stored = await rig.api.get(SLICES, foreign().metadata.name, signal());
      const { uid = "", resourceVersion = "" } = stored.metadata;
      const client = rig.clientOf();
      const words = "must not write slices of another node";
      await expect(client.update(SLICES, stored, signal())).rejects.toThrow(words);
      const gone = client.delete(SLICES, stored.metadata.name, { uid, resourceVersion }, signal());
      await expect(gone).rejects.toThrow(words);
      client.close();
      // Its own daemon can, and other users do what RBAC lets them.
      const directory = await rig.server.serviceAccountOf(rig.daemonOf("n2"));
      const other = rig.clientOf(directory);
      await other.delete(SLICES, stored.metadata.name, { uid, resourceVersion }, signal());
      other.close();
    });
  });
});
