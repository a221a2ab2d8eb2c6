import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { DRIVER, portParameters } from "../../test/stand-in/dra/claim-object.ts";
import { DraRig } from "../../test/stand-in/dra/dra-rig.ts";
import type { KubeletDevice } from "../../test/stand-in/kubelet/dra-manager.ts";
import { unobserved } from "../../test/stand-in/reconcile/unobserved.ts";
import { changeEntries } from "../../test/stand-in/records/journal-files.ts";
import { silentLogger } from "../logging/logger.ts";
import { Reconciler } from "../reconcile/reconciler.ts";
import { isOfClaim } from "../records/allocation-record.ts";
import { portKey } from "../records/port-record.ts";
import { readClaimMetadata } from "../sidecar/dra-metadata.ts";
import { systemClock } from "../sync/clock.ts";
import { restoreClaimFiles } from "./claim-files.ts";

let rig: DraRig;
beforeEach(async () => {
  rig = await DraRig.open();
});
afterEach(() => rig.close());

const metadataDirectory = () => join(rig.context.pluginDirectory, "dra-device-metadata");
const files = (directory: string) => (existsSync(directory) ? readdirSync(directory) : []);

/** What there is of claims: records, directories, ports, files. */
function left() {
  const { records, dataplane, config, context } = rig;
  return {
    allocations: records.allocations.list().length,
    ports: records.ports.list().length,
    switchPorts: dataplane.ports.size,
    directories: files(config.root).filter((name) => !name.startsWith(".")).length,
    files: files(context.cdiDirectory).length + files(metadataDirectory()).length,
  };
}
const NOTHING = { allocations: 0, ports: 0, switchPorts: 0, directories: 0, files: 0 };
const ONE = { allocations: 1, ports: 1, switchPorts: 1, directories: 1, files: 2 };

/** Sockets' directories in a container: those that are not metadata. */
const directoriesOf = (devices: readonly KubeletDevice[]) =>
  rig.container(devices).mounts.filter(({ containerPath }) => !containerPath.endsWith(".json"));

/** The metadata of a request as the sidecar reads it in a container with these devices. */
function metadata(
  devices: readonly KubeletDevice[],
  claim: string,
  kind: "claim" | "template",
  request = "net",
) {
  const mount = rig.container(devices).mounts.find(({ containerPath }) => containerPath.endsWith(".json"));
  const found = `/var/run/kubernetes.io/dra-device-attributes/resourceclaim${kind === "template" ? "templates" : "s"}/${claim}/${request}/${DRIVER}-metadata.json`;
  expect(mount).toMatchObject({ containerPath: found, options: ["ro", "bind"] });
  return JSON.parse(readFileSync(mount?.hostPath ?? "", "utf8"));
}

/** Kubelet forgets that it has prepared claims. */
async function restartKubelet(): Promise<void> {
  await rig.kubelet.stop();
  rig.kubelet.start();
  await rig.kubelet.waitForDriver(DRIVER);
}

/** Passes of the reconciler, as kubelet lists these pods, so many seconds from now. */
async function pass(pods: readonly string[], count = 1, seconds = 0): Promise<void> {
  const listed = ["daemon", ...pods].map((podName) => ({ podNamespace: "ns", podName, containers: [] }));
  const { context } = rig;
  const reconciler = new Reconciler({
    ...{ context: context.node, places: context.places, locks: context.locks, logger: silentLogger },
    ...{ observer: unobserved, ownPod: { namespace: "ns", name: "daemon" } },
    clock: { ...systemClock, now: () => Date.now() + seconds * 1_000 },
    listPods: async () => listed,
    repairClaims: () => restoreClaimFiles(context),
  });
  for (let passes = 0; passes < count; passes++) await reconciler.pass();
  await reconciler.close();
}

describe("Prepare", () => {
  it("gives a container the socket's directory, its path in a variable, and the device's metadata", async () => {
    const [device, ...others] = await rig.prepare({
      name: "direct",
      uid: "1-a",
      results: [{ shareID: "s-1" }],
    });
    expect([others, device]).toMatchObject([
      [],
      { request_names: ["net"], pool_name: "n1", device_name: "one", share_id: "s-1" },
    ]);
    const devices = device === undefined ? [] : [device];
    const path = "/var/run/vhostuser/claims/direct/net/vhost.sock";
    expect(rig.container(devices).env).toEqual([`VHOSTUSER_CLAIM_DIRECT__NET=${path}`]);
    const [allocation] = rig.records.allocations.list();
    const hostPath = join(rig.config.root, allocation?.id ?? "", "net");
    expect(directoriesOf(devices)).toEqual([
      { hostPath, containerPath: dirname(path), options: ["rw", "bind"] },
    ]);
    expect(statSync(hostPath).gid).toBe(107);
    const [port] = rig.records.ports.list();
    // A directory that is younger than its record is one that was made again, for `vhostuserctl doctor`.
    expect(statSync(dirname(hostPath)).birthtimeMs).toBeLessThanOrEqual(port?.createdAt ?? 0);
    expect(rig.dataplane.ports.get(port?.portName ?? "")).toMatchObject({
      ...{ bridge: "br0", socketPath: join(hostPath, "vhost.sock") },
      owner: { podNamespace: "ns", podName: "pod", podUid: "pod-uid" },
    });
    expect(port).toMatchObject({ state: "attached", mac: expect.stringMatching(/^[0-9a-f][26ae]:/) });
    expect(metadata(devices, "direct", "claim")).toEqual({
      apiVersion: "metadata.resource.k8s.io/v1alpha1",
      kind: "DeviceMetadata",
      metadata: { name: "direct", namespace: "ns", uid: "1-a", generation: 1 },
      requests: [
        {
          name: "net",
          devices: [
            {
              ...{
                driver: DRIVER,
                pool: "n1",
                name: "one",
                attributes: { "vhost-user-path": { string: path } },
              },
              networkData: { interfaceName: "net", hardwareAddress: port?.mac },
            },
          ],
        },
      ],
    });
    expect(rig.reads).toBe(1);
  });

  it("uses the pod's name of a template's claim, so that every pod has the same path; the sidecar can read it", async () => {
    const parameters = portParameters({ mtu: 9000, mac: "02:00:00:00:00:07" });
    const devices = await rig.prepare({
      ...{ name: "vm-x7-net-k2", podClaimName: "net" },
      config: [{ source: "FromClass", parameters }],
    });
    const path = "/var/run/vhostuser/claims/net/net/vhost.sock";
    expect(rig.container(devices).env).toEqual([`VHOSTUSER_CLAIM_NET__NET=${path}`]);
    const text = JSON.stringify(metadata(devices, "net", "template"));
    const inContainer = join(rig.config.recordsDirectory, "container");
    const directory = join(inContainer, "resourceclaimtemplates/net/net");
    mkdirSync(directory, { recursive: true });
    writeFileSync(join(directory, `${DRIVER}-metadata.json`), text);
    expect(readClaimMetadata({ kind: "template", claim: "net", request: "net" }, "n", inContainer)).toEqual({
      socketPath: path,
      mac: "02:00:00:00:00:07",
      mtu: 9000,
    });
  });

  it("numbers the claims of a call in their order, however fast each is, so that CNI finds them in it", async () => {
    const { get } = rig.context.api;
    const first = Promise.withResolvers<void>();
    Object.assign(rig.context.api, {
      get: async (...args: Parameters<typeof get>) => {
        if (args[1] === "a") await first.promise;
        return get(...args).finally(() => first.resolve());
      },
    });
    await rig.prepare({ name: "a", results: [{}, {}] }, { name: "b" });
    const claims = rig.records.allocations.list().filter(isOfClaim);
    claims.sort((one, other) => one.sequence - other.sequence);
    expect(claims.map(({ holder }) => [holder.name, holder.index])).toEqual([
      ["a", 0],
      ["a", 1],
      ["b", 0],
    ]);
  });

  it("gives shares, several devices of a request and subrequests a port, a path and a CDI name each", async () => {
    const requests = ["a", "a", "b/small", "c", "c", "c"];
    const results = requests.map((request) => ({ request }));
    const devices = await rig.prepare({ name: "first", results }, { name: "second", results });
    expect(devices.map(({ request_names }) => request_names.join()).slice(0, 6)).toEqual("aabccc".split(""));
    const mounts = directoriesOf(devices);
    const distinct = (values: readonly unknown[]) => new Set(values).size;
    expect([
      distinct(devices.flatMap(({ cdi_device_ids }) => cdi_device_ids)),
      distinct(mounts.map(({ containerPath }) => containerPath)),
      distinct(mounts.map(({ hostPath }) => hostPath)),
      distinct(rig.container(devices).env),
      rig.dataplane.ports.size,
      distinct([...rig.dataplane.ports.values()].map(({ owner }) => owner.mac)),
    ]).toEqual(Array(6).fill(12));
    const [, second] = devices;
    const only = rig.container(second === undefined ? [] : [second]);
    expect(only.mounts).toHaveLength(1);
    expect(only.env).toEqual(["VHOSTUSER_CLAIM_FIRST__A_1=/var/run/vhostuser/claims/first/a.1/vhost.sock"]);
    expect(metadata(devices.slice(2, 3), "first", "claim", "b").requests).toMatchObject([
      { name: "b/small", devices: [{}] },
    ]);
    expect(metadata(devices.slice(0, 1), "first", "claim", "a").requests[0].devices).toHaveLength(2);
  });

  it("limits a port to the bandwidth that its request takes of the pool", async () => {
    const results = ["1500M", "0", undefined].map((bandwidth) => ({
      consumedCapacity: { ports: "1", ...(bandwidth && { bandwidth }) },
    }));
    await rig.prepare({ name: "c", results });
    const limits = rig.records.ports.list().map(({ interfaceName, settings }) => [interfaceName, settings]);
    const rate = { rate: 1_500_000_000, burst: 150_000_000 };
    expect(Object.fromEntries(limits)).toEqual({
      net: { fromGuest: rate, toGuest: rate },
      ...{ "net.1": {}, "net.2": {} },
    });
    const consumedCapacity = { bandwidth: "much" };
    await expect(rig.prepare({ name: "d", results: [{ consumedCapacity }] })).rejects.toThrow(
      "must be a quantity that is not negative",
    );
  });

  it("answers the same when it is repeated, and restores what is missing", async () => {
    const object = rig.put({ name: "c" });
    const first = await rig.prepareAgain(object);
    const edits = rig.container(first);
    const before = JSON.stringify(rig.records.ports.list());
    const [file] = files(metadataDirectory());
    const inode = statSync(join(metadataDirectory(), file ?? "")).ino;
    for (const lose of [
      () => undefined,
      () => rmSync(rig.context.cdiDirectory, { recursive: true }),
      () => rig.dataplane.ports.clear(),
      () => rmSync(edits.mounts[0]?.hostPath ?? "", { recursive: true }),
    ]) {
      lose();
      await restartKubelet();
      expect(await rig.prepareAgain(object)).toEqual(first);
      expect(rig.container(first)).toEqual(edits);
      expect(left()).toEqual(ONE);
    }
    expect(JSON.stringify(rig.records.ports.list())).toBe(before);
    // Containers have the file's inode mounted.
    expect(statSync(join(metadataDirectory(), file ?? "")).ino).toBe(inode);
    expect(metadata(first, "c", "claim").metadata.generation).toBe(1);
    expect(rig.kubelet.calls.filter((call) => call.startsWith("NodePrepare"))).toHaveLength(5);
  });

  it("changes metadata in place, in the file that containers have mounted, as another generation of it", async () => {
    const devices = await rig.prepare({ name: "c" });
    const [port] = rig.records.ports.list();
    const before = statSync(rig.container(devices).mounts[1]?.hostPath ?? "").ino;
    if (port !== undefined) await rig.records.ports.put({ ...port, mtu: 9000 });
    await pass(["pod"]);
    expect(metadata(devices, "c", "claim")).toMatchObject({
      metadata: { generation: 2 },
      requests: [{ devices: [{ attributes: { mtu: { int: 9000 } } }] }],
    });
    expect(statSync(rig.container(devices).mounts[1]?.hostPath ?? "").ino).toBe(before);
  });

  it("adopts what it has of a pool that offers nothing to claims any more", async () => {
    const object = rig.put({ name: "c" });
    const devices = await rig.prepareAgain(object);
    const [port] = rig.records.ports.list();
    await rig.records.ports.remove(`${port?.allocationId}@net`);
    Object.assign(rig.context, { poolOf: () => undefined });
    await restartKubelet();
    expect(await rig.prepareAgain(object)).toEqual(devices);
  });

  it("is the same after a restart of the daemon and after a reboot, which loses directories and CDI files", async () => {
    const object = rig.put({ name: "c", results: [{}, {}] });
    const first = await rig.prepareAgain(object);
    const edits = rig.container(first);
    await rig.restartDriver();
    expect(rig.container(first)).toEqual(edits);
    await rig.reboot();
    // Containers that kubelet starts before it prepares again find what they had.
    expect(rig.container(first)).toEqual(edits);
    expect(await rig.prepareAgain(object)).toEqual(first);
    await rig.unprepare();
    expect(left()).toEqual(NOTHING);
  });

  it("makes what is missing where the daemon was killed between any two of its steps", async () => {
    const object = rig.put({ name: "c" });
    const first = await rig.prepareAgain(object);
    const [port] = rig.records.ports.list();
    const name = `${port?.allocationId}@net`;
    const steps: (() => Promise<unknown>)[] = [
      () => rig.records.ports.remove(name),
      () => rig.records.ports.update(name, (record) => record && { ...record, state: "attaching" }),
      () => rig.records.ports.update(name, (record) => record && { ...record, state: "detaching" }),
    ];
    for (const step of steps) {
      await step();
      await restartKubelet();
      await rig.restartDriver(async () => rig.dataplane.ports.clear());
      expect(await rig.prepareAgain(object)).toEqual(first);
      expect(left()).toEqual(ONE);
      expect(rig.records.ports.list()).toMatchObject([{ state: "attached", portName: port?.portName }]);
    }
  });

  it("keeps the port as a sandbox of the pod has it by now", async () => {
    const object = rig.put({ name: "c" });
    const first = await rig.prepareAgain(object);
    const [port] = rig.records.ports.list();
    if (port === undefined) throw new Error("no port");
    const attached = { ...port, containerId: "sandbox", startedAtMs: port.startedAtMs + 1 };
    const lock = { key: portKey(port), what: "ADD" };
    await restartKubelet();
    let again: Promise<unknown> | undefined;
    await rig.context.locks.run(lock, async () => {
      const waits = Promise.withResolvers<void>();
      const { run } = rig.context.locks;
      rig.context.locks.run = (...args) => {
        waits.resolve();
        return run.apply(rig.context.locks, args) as ReturnType<typeof run<never>>;
      };
      again = rig.prepareAgain(object);
      await waits.promise;
      await rig.records.ports.put(attached);
    });
    expect(await again).toEqual(first);
    expect(rig.records.ports.list()).toEqual([attached]);
  });

  it("fails for one claim with what is wrong and makes the others, and nothing of the one", async () => {
    const bad = { name: "bad", results: [{}, { device: "none" }] };
    await expect(rig.prepare({ name: "good" }, bad)).rejects.toThrow(
      'invalid-claim: this node has no device "none" of pool "n1" for claims (claim ns/bad, request net); delete the pod',
    );
    expect(left()).toEqual(ONE);
    expect(rig.reports.find(({ claim }) => claim.name === "bad")?.devices).toMatchObject([
      { device: "one", problem: { code: "invalid-claim" } },
      { device: "none", problem: { code: "invalid-claim" } },
    ]);
  });

  it("removes what it made where the switch refuses a port, and keeps what was there", async () => {
    rig.dataplane.portError = "no memory";
    const wish = { name: "c", uid: "u1", results: [{ shareID: "s1" }, { shareID: "s2" }] };
    await expect(rig.prepare(wish)).rejects.toThrow("port-failed: no memory");
    expect(left()).toEqual(NOTHING);
    rig.dataplane.portError = undefined;
    const object = rig.put(wish);
    const first = await rig.prepareAgain(object);
    await restartKubelet();
    rig.dataplane.dead = true;
    await expect(rig.prepareAgain(object)).rejects.toThrow("dataplane-unavailable");
    rig.dataplane.dead = false;
    expect(await rig.prepareAgain(object)).toEqual(first);
    expect(left()).toMatchObject({ allocations: 2, switchPorts: 2 });
  });

  it("removes what it made where its files cannot be written", async () => {
    writeFileSync(rig.context.cdiDirectory, "");
    await expect(rig.prepare({ name: "c" })).rejects.toThrow("EEXIST");
    rmSync(rig.context.cdiDirectory);
    mkdirSync(join(rig.context.cdiDirectory, `${DRIVER}-socket_u.json`), { recursive: true });
    await expect(rig.prepare({ name: "d", uid: "u" })).rejects.toThrow("EISDIR");
    rmSync(rig.context.cdiDirectory, { recursive: true });
    expect(left()).toEqual(NOTHING);
  });

  it("leaves to the reconciler what it cannot remove while the switch is away", async () => {
    rig.dataplane.portError = "no memory";
    const removePort = rig.dataplane.removePort.bind(rig.dataplane);
    rig.dataplane.removePort = async (...args) => {
      rig.dataplane.dead = true;
      return removePort(...args);
    };
    await expect(rig.prepare({ name: "c" })).rejects.toThrow("port-failed");
    expect(left()).toMatchObject({ allocations: 1, directories: 1, files: 0 });
    Object.assign(rig.dataplane, { dead: false, portError: undefined, removePort });
    await pass(["pod"]);
    expect(left()).toEqual(NOTHING);
  });

  it("makes nothing for administrators' access", async () => {
    const devices = await rig.prepare({ name: "c", results: [{ adminAccess: true, request: "look" }, {}] });
    expect(devices).toMatchObject([
      { request_names: ["look"], device_name: "one", cdi_device_ids: [] },
      { request_names: ["net"], cdi_device_ids: [expect.any(String)] },
    ]);
    expect(left()).toEqual(ONE);
    expect(rig.reports.at(-1)?.devices).toHaveLength(1);
  });

  it("does not touch other drivers' results", async () => {
    const results = [{ driver: "gpu.example.com", device: "gpu-0" }, {}];
    expect(await rig.prepare({ name: "c", results })).toHaveLength(1);
    expect(rig.records.ports.list()).toMatchObject([{ interfaceName: "net" }]);
  });

  it("refuses a claim that was replaced, is not allocated, or is of several pods", async () => {
    const { metadata, ...rest } = rig.put({ name: "c" });
    const replaced = { ...rest, metadata: { ...metadata, uid: "older" } };
    await expect(rig.prepareAgain(replaced)).rejects.toThrow("kubelet asks for UID older");
    const object = rig.put({ name: "d" });
    rig.claims.set("ns/d", { ...object, status: {} });
    await expect(rig.prepareAgain(object)).rejects.toThrow("invalid-claim: it is not allocated");
    const pods = ["a", "b"].map((name) => ({ name, uid: name }));
    await expect(rig.prepare({ name: "e", pods })).rejects.toThrow("reserved for 2 pods");
    for (const none of [[], [{ name: "p", uid: "p", apiGroup: "example.com" }]])
      await expect(rig.prepare({ name: `f${none.length}`, pods: none })).rejects.toThrow(
        "not reserved for a pod",
      );
    await expect(rig.prepare({ name: "g", results: [{ pool: "n2" }] })).rejects.toThrow('of pool "n2"');
    rig.claims.clear();
    await expect(rig.prepareAgain(object)).rejects.toThrow("kube-api-refused: no claim d");
    expect(left()).toEqual(NOTHING);
  });

  it.each([
    ["../../etc", "net", "which is no DNS label"],
    ["net", "../x", "request"],
    ["net", "a/b/c", "request"],
  ])("refuses names that lead out of their directories: %s, %s", async (podClaimName, request, text) => {
    await expect(rig.prepare({ name: "c", podClaimName, results: [{ request }] })).rejects.toThrow(text);
    expect(left()).toEqual(NOTHING);
  });

  it("says which names to shorten where a path is too long for a socket", async () => {
    const podClaimName = "n".repeat(63);
    await expect(
      rig.prepare({ name: "c", podClaimName, results: [{ request: "r".repeat(20) }] }),
    ).rejects.toThrow(/path-too-long: .*; shorten the claim's name in the pod/);
    expect(left()).toEqual(NOTHING);
  });

  it("refuses two claims that a pod would find by the same name", async () => {
    await rig.prepare({ name: "other", podClaimName: "net" });
    await expect(rig.prepare({ name: "net" })).rejects.toThrow(
      /invalid-claim: request net of claim other has the same name in the pod, VHOSTUSER_CLAIM_NET__NET/,
    );
    const requests = ["a", "a", "a-1"].map((request) => ({ request }));
    await expect(rig.prepare({ name: "twice", results: requests })).rejects.toThrow(
      "VHOSTUSER_CLAIM_TWICE__A_1",
    );
    expect(left()).toEqual(ONE);
    const pods = [{ name: "pod-2", uid: "uid-2" }];
    expect(await rig.prepare({ name: "another", podClaimName: "net", pods })).toHaveLength(1);
  });

  it("releases what the claim had for a pod before, whose Unprepare was lost", async () => {
    const wish = { name: "c", uid: "same", results: [{ shareID: "s" }] };
    const first = await rig.prepare(wish);
    await restartKubelet();
    const second = await rig.prepare({ ...wish, pods: [{ name: "pod", uid: "new" }] });
    expect(second[0]?.cdi_device_ids).not.toEqual(first[0]?.cdi_device_ids);
    expect(left()).toEqual(ONE);
    expect(() => rig.container(first)).toThrow("unresolvable");
  });
});

describe("Unprepare", () => {
  it("removes all that Prepare made, of this claim alone", async () => {
    const own = rig.put({ name: "a" });
    await rig.kubelet.prepare("pod-2", DRIVER, [
      { namespace: "ns", name: "a", uid: String(own.metadata.uid) },
    ]);
    await rig.prepare({ name: "b" });
    await rig.unprepare();
    expect(left()).toEqual(ONE);
    expect(rig.records.allocations.list().filter(isOfClaim)).toMatchObject([{ holder: { name: "a" } }]);
    await rig.unprepare("pod-2");
    expect(left()).toEqual(NOTHING);
  });

  it("succeeds for a claim that is unknown, was deleted, or is unprepared already, and after a restart", async () => {
    const object = rig.put({ name: "c" });
    const again = () => rig.prepareAgain(object);
    await again();
    rig.claims.clear();
    rig.reads = 0;
    await rig.restartDriver();
    await rig.unprepare();
    expect([left(), rig.reads]).toEqual([NOTHING, 0]);
    // Kubelet's checkpoint may know claims that the driver never prepared, or has unprepared.
    for (let times = 0; times < 2; times++) {
      await expect(again()).rejects.toThrow("no claim c");
      await rig.unprepare();
    }
    expect(left()).toEqual(NOTHING);
  });

  it("succeeds where no record can be written, and the reconciler removes the rest", async () => {
    await rig.prepare({ name: "c" });
    const allocations = join(rig.config.recordsDirectory, "allocations");
    renameSync(allocations, `${allocations}.away`);
    await rig.unprepare();
    expect(left()).toMatchObject({ allocations: 1, switchPorts: 0, directories: 0, files: 0 });
    renameSync(`${allocations}.away`, allocations);
    await pass(["pod"]);
    expect(left()).toEqual(NOTHING);
  });

  it("succeeds while the switch is away, and the reconciler removes the rest when it is back", async () => {
    const devices = await rig.prepare({ name: "c" });
    rig.dataplane.dead = true;
    await rig.unprepare();
    expect(left()).toEqual({ ...ONE, files: 0 });
    expect(() => rig.container(devices)).toThrow();
    rig.dataplane.dead = false;
    await rig.restartDriver();
    await pass(["pod"]);
    expect(left()).toEqual(NOTHING);
  });
});

describe("the reconciler", () => {
  it("keeps what a claim has while its pod lives, and removes it when the pod is gone for good", async () => {
    await rig.prepare({ name: "c" });
    await pass(["pod"]);
    expect(left()).toEqual(ONE);
    rig.dataplane.ports.clear();
    await pass(["pod"], 2, 3_600);
    expect(left()).toEqual(ONE);
    await pass(["another"], 2, 3_600);
    expect(left()).toEqual(NOTHING);
  });

  it("keeps the files of a claim as they are while a port of it is away between two sandboxes", async () => {
    const devices = await rig.prepare({ name: "c", results: [{}, {}] });
    const edits = rig.container(devices);
    const [port] = rig.records.ports.list();
    if (port !== undefined) await rig.records.ports.remove(portKey(port));
    await pass(["pod"]);
    expect(rig.container(devices)).toEqual(edits);
    expect(metadata(devices, "c", "claim").requests[0].devices).toHaveLength(2);
  });

  it("keeps the files of a claim while a record of it is damaged, as its containers need all of its devices", async () => {
    const devices = await rig.prepare({ name: "c", results: [{}, {}] });
    const edits = rig.container(devices);
    const [, damaged] = rig.records.allocations.list();
    const damage = (line: string) =>
      line.includes(`"key":"${damaged?.id}"`) ? line.replace('"pool":"one"', '"pool":7') : line;
    await rig.restartDriver(() => changeEntries(join(rig.config.recordsDirectory, "allocations"), damage));
    expect(rig.records.allocations.unreadable).toHaveLength(1);
    await pass(["pod"]);
    expect(rig.container(devices)).toEqual(edits);
    expect(metadata(devices, "c", "claim").requests[0].devices).toHaveLength(2);
  });

  it("has the files of claims restored, and those of claims that are gone removed", async () => {
    const devices = await rig.prepare({ name: "c" });
    const edits = rig.container(devices);
    rmSync(rig.context.cdiDirectory, { recursive: true });
    await pass(["pod"]);
    expect(rig.container(devices)).toEqual(edits);
    const [name = ""] = files(rig.context.cdiDirectory);
    const ours = join(rig.context.cdiDirectory, name.replace(/_.*/, "_gone.json"));
    const others = join(rig.context.cdiDirectory, "nvidia.com-gpu.json");
    const old = join(metadataDirectory(), "gone_net.json");
    for (const file of [ours, others, old]) writeFileSync(file, "{}");
    const damaged = rig.records.allocations.unreadable as object[];
    damaged.push({});
    await pass(["pod"]);
    expect(existsSync(ours), "a damaged record may be that of a living claim").toBe(true);
    damaged.pop();
    await pass(["pod"]);
    expect([ours, others, old].map((file) => existsSync(file))).toEqual([false, true, false]);
    rmSync(others);
    expect(left()).toEqual(ONE);
  });
});
