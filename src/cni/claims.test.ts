import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { CniRig } from "../../test/stand-in/cni/cni-rig.ts";
import { exampleClaim } from "../../test/stand-in/records/example-claim.ts";
import { directoriesOf } from "../allocation/allocation.ts";
import { ensureSocketDirectories } from "../allocation/socket-directories.ts";
import type { ClaimHolder } from "../records/claim-holder.ts";
import { takeSequences } from "../records/records.ts";

/** The device of a ResourceSlice that every claim here shares, as Multus passes it. */
const SHARED = "sockets";

/** What class and claim ask of each port. */
const CLAIMED_PORT = {
  ...{ bridge: "br0", mac: "02:00:00:00:00:0a", mtu: 9000, isAddressed: false },
  settings: { vlan: { mode: "access" as const, tag: 7, trunks: [], customerVlans: [] } },
};

let rig: CniRig;
beforeEach(async () => {
  rig = await CniRig.open();
});
afterEach(() => rig.close());

/** What Prepare leaves of a claim: an allocation with its directory. */
async function prepare(id: string, holder: Partial<ClaimHolder> = {}): Promise<void> {
  const { allocations } = rig.records;
  const record = {
    id: id.padEnd(20, "0"),
    pool: "sockets",
    holder: exampleClaim({
      ...{ uid: `uid-${id}`, name: `claim-${id}`, podClaimName: "nets", request: "port", device: SHARED },
      pod: { namespace: "ns", name: "pod", uid: "u-1" },
      port: CLAIMED_PORT,
      ...holder,
    }),
    ownership: { owner: 107, group: 107, mode: 0o2770 },
    dataplane: { type: "ovs-dpdk", bridge: "br0" },
    createdAt: Date.now(),
    sequence: takeSequences(allocations),
  };
  await allocations.put(record);
  await ensureSocketDirectories(directoriesOf(record, rig.context.node.config));
}

const call = (verb: string, ifname = "net1", container = "c1", config: object = {}) =>
  rig.call(verb, { ifname, container, config: { deviceID: SHARED, ...config } });
const socketOf = ({ json }: Awaited<ReturnType<typeof call>>) =>
  (json?.["interfaces"] as { readonly socketPath: string }[] | undefined)?.[0]?.socketPath;

describe("a network with a claim", () => {
  it("gets the port of the pod's claim, at the claim's path", async () => {
    await prepare("a");
    const deviceInfo = join(rig.context.node.config.deviceInfoDirectory, "cni", "file");
    const added = await call("ADD", "net1", "c1", { runtimeConfig: { CNIDeviceInfoFile: deviceInfo } });
    expect(added).toMatchObject({ exitCode: 0, json: { interfaces: [{ name: "net1" }] } });
    expect(socketOf(added)).toBe("/var/run/vhostuser/claims/nets/port/vhost.sock");
    expect(await readFile(deviceInfo, "utf8")).toContain("/claims/nets/port/vhost.sock");
    const root = join(rig.context.node.config.root, "a".padEnd(20, "0"));
    const { isAddressed: _, ...asked } = CLAIMED_PORT;
    expect(rig.records.ports.list()).toMatchObject([asked]);
    expect([...rig.dataplane.ports.values()]).toMatchObject([{ socketPath: join(root, "port/vhost.sock") }]);
    expect(await call("CHECK", "net1", "c1", { prevResult: added.json })).toMatchObject({ exitCode: 0 });
    expect(await call("ADD", "net1", "c1", { runtimeConfig: { CNIDeviceInfoFile: deviceInfo } })).toEqual(
      added,
    );
  });

  it("gets one claim for each interface where several have the same device, in the pod's order", async () => {
    await prepare("a");
    await prepare("b", { request: "second" });
    expect(socketOf(await call("ADD", "net1"))).toContain("/port/");
    expect(socketOf(await call("ADD", "net2"))).toContain("/second/");
    expect(socketOf(await call("ADD", "net1"))).toContain("/port/");
    const third = await call("ADD", "net3");
    expect(third).toMatchObject({ exitCode: 1, json: { msg: expect.stringContaining(SHARED) } });
  });

  it("gives two interfaces that come at the same moment a port each", async () => {
    await prepare("a");
    await prepare("b", { request: "second" });
    const added = await Promise.all([call("ADD", "net1"), call("ADD", "net2")]);
    // One that chose what the other has just got fails as busy, and the runtime repeats it.
    const again = await Promise.all(
      added.map((one, index) => (one.exitCode === 0 ? one : call("ADD", `net${index + 1}`))),
    );
    expect(new Set(again.map(socketOf)).size).toBe(2);
  });

  it.each<[string, Partial<ClaimHolder>]>([
    ["another pod's", { pod: { namespace: "ns", name: "other", uid: "u-2" } }],
    ["one of an earlier pod of the same name", { pod: { namespace: "ns", name: "pod", uid: "u-0" } }],
    ["one that kubelet released", { released: true }],
  ])("does not get %s claim", async (_, holder) => {
    await prepare("a", holder);
    expect(await call("ADD")).toMatchObject({ exitCode: 1 });
    expect(rig.ports()).toEqual([]);
  });

  it("has MAC, MTU and addresses of the network, where it gives them", async () => {
    await prepare("a");
    const added = await call("ADD", "net1", "c1", { mtu: 1400, runtimeConfig: { mac: "02:00:00:00:00:0b" } });
    expect(added).toMatchObject({
      exitCode: 0,
      json: { interfaces: [{ mac: "02:00:00:00:00:0b", mtu: 1400 }] },
    });
  });

  it.each<[string, object, Partial<ClaimHolder>, string]>([
    ["settings of the port", { vlan: 9 }, {}, "vlan cannot be set"],
    [
      "a limit of the runtime's",
      { runtimeConfig: { bandwidth: { ingressRate: 1, ingressBurst: 1 } } },
      {},
      "bandwidth",
    ],
    [
      "a claim with addresses of its own",
      {},
      { port: { ...CLAIMED_PORT, isAddressed: true } },
      "addresses of its own",
    ],
  ])("is refused with %s", async (_, config, holder, what) => {
    await prepare("a", holder);
    const refused = await call("ADD", "net1", "c1", config);
    expect(refused).toMatchObject({ exitCode: 1, json: { code: 7, msg: expect.stringContaining(what) } });
    expect(rig.ports()).toEqual([]);
  });

  it("keeps its port in a new sandbox, whose DEL removes it; the claim's directory stays", async () => {
    await prepare("a");
    await call("ADD", "net1", "c1");
    const path = socketOf(await call("ADD", "net1", "c2"));
    expect(path).toContain("/claims/nets/port/");
    expect(await call("DEL", "net1", "c1")).toEqual({ exitCode: 0 });
    expect(rig.ports()).toEqual(["c2 port"]);
    expect(await call("DEL", "net1", "c2")).toEqual({ exitCode: 0 });
    expect(rig.ports()).toEqual([]);
    expect(existsSync(join(rig.context.node.config.root, "a".padEnd(20, "0"), "port"))).toBe(true);
  });

  it("is kept by GC as long as the runtime names its interface", async () => {
    await prepare("a");
    await call("ADD");
    const valid = [{ containerID: "c1", ifname: "net1" }];
    await call("GC", "net1", "c1", { "cni.dev/valid-attachments": valid });
    expect(rig.ports()).toEqual(["c1 port"]);
    await call("GC", "net1", "c1", { "cni.dev/valid-attachments": [] });
    expect(rig.ports()).toEqual([]);
  });
});
