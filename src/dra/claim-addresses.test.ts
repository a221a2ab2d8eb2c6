import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { IpamPlugin } from "../../test/stand-in/cni/ipam-plugin.ts";
import { portParameters } from "../../test/stand-in/dra/claim-object.ts";
import { DraRig } from "../../test/stand-in/dra/dra-rig.ts";
import { unobserved } from "../../test/stand-in/reconcile/unobserved.ts";
import { silentLogger } from "../logging/logger.ts";
import { Reconciler } from "../reconcile/reconciler.ts";
import { systemClock } from "../sync/clock.ts";
import { DRA_DRIVER } from "./dra-context.ts";
import { releaseLeftAddresses } from "./unprepare.ts";

let rig: DraRig;
let ipam: IpamPlugin;
beforeEach(async () => {
  rig = await DraRig.open();
  const binDir = rig.config.dra.ipamPlugins ?? "";
  ipam = await IpamPlugin.install({ binDir, directory: join(rig.config.recordsDirectory, "ipam") });
});
afterEach(() => rig.close());

/** A claim whose class asks for addresses. */
const addressed = (name: string, uid: string, keys: object = {}) => ({
  name,
  uid,
  config: [
    {
      source: "FromClass" as const,
      parameters: portParameters({ ipam: { type: ipam.type, range: "a" }, ...keys }),
    },
  ],
});
const given = () =>
  rig.records.ports.list().map(({ lease }) => lease?.given?.ips.map(({ address }) => address));

describe("a claim with ipam", () => {
  it("has addresses from Prepare, by the pool's network and without a network namespace, to Unprepare", async () => {
    await rig.prepare(addressed("one", "u-1", { portSecurity: true, dhcp: true }));
    expect(given()).toEqual([["10.9.0.1/24"]]);
    const [port] = rig.records.ports.list();
    expect(await ipam.held()).toEqual([`claim-u-1 ${port?.portName}`]);
    expect(port?.settings.security).toEqual({ addresses: ["10.9.0.1"] });
    expect(port?.settings.dhcp?.addresses).toEqual([{ address: "10.9.0.1/24", gateway: "10.9.0.254" }]);
    expect(await ipam.lastInput("ADD")).toMatchObject({ name: "one", ipam: { type: ipam.type, range: "a" } });
    const [call] = await ipam.calls();
    expect(call).toMatchObject({
      args: "IgnoreUnknown=1;K8S_POD_NAMESPACE=ns;K8S_POD_NAME=pod;K8S_POD_UID=pod-uid;RESOURCE_CLAIM=one;RESOURCE_CLAIM_REQUEST=net",
      netns: "/claims-have-no-network-namespace",
    });
    expect(rig.reports.at(-1)?.devices[0]?.port?.lease?.given?.ips).toHaveLength(1);
    await rig.unprepare();
    expect(await ipam.held()).toEqual([]);
    expect(rig.records.ports.list()).toEqual([]);
  });

  it("keeps them when Prepare is repeated, after a restart and a reboot too", async () => {
    await rig.prepare(addressed("one", "u-1"));
    await rig.restartDriver();
    await rig.prepareAgain(...rig.claims.values());
    await rig.reboot();
    await rig.prepareAgain(...rig.claims.values());
    expect(await ipam.verbs()).toEqual(["ADD claim-u-1"]);
    expect(given()).toEqual([["10.9.0.1/24"]]);
  });

  it("gets them where the daemon was killed before it recorded what the plugin gave", async () => {
    await rig.prepare(addressed("one", "u-1"));
    const [port] = rig.records.ports.list();
    if (port?.lease === undefined) throw new Error("no lease");
    const { given: _, ...lease } = port.lease;
    for (const left of [
      { state: "attaching" as const, lease },
      // The reconciler came first.
      { state: "releasing" as const, lease: undefined, releases: [lease] },
    ]) {
      await rig.records.ports.put({ ...port, ...left });
      await rig.restartDriver();
      await rig.kubelet.stop();
      rig.kubelet.start();
      await rig.kubelet.waitForDriver(DRA_DRIVER);
      await rig.prepareAgain(...rig.claims.values());
      expect(await ipam.held()).toEqual([`claim-u-1 ${port.portName}`]);
      expect(rig.records.ports.list()).toMatchObject([{ state: "attached", releases: [] }]);
    }
  });

  it("leaves to networks what their plugins gave the port, for those may keep it where the daemon cannot see it", async () => {
    await rig.prepare(addressed("one", "u-1"));
    const [port] = rig.records.ports.list();
    if (port?.lease === undefined) throw new Error("no lease");
    const ofNetwork = { ...port.lease, containerId: "sandbox" };
    await rig.records.ports.put({ ...port, state: "releasing", lease: undefined, releases: [ofNetwork] });
    await rig.kubelet.stop();
    rig.kubelet.start();
    await rig.kubelet.waitForDriver(DRA_DRIVER);
    await ipam.answer("ADD", { cniVersion: "1.0.0", ips: [{ address: "10.9.0.7/24" }] });
    await rig.prepareAgain(...rig.claims.values());
    expect(rig.records.ports.list()).toMatchObject([{ state: "attached", releases: [ofNetwork] }]);
    await rig.unprepare();
    expect(rig.records.ports.list()).toMatchObject([{ state: "releasing", releases: [ofNetwork] }]);
    expect(await ipam.verbs()).not.toContain("DEL sandbox");
  });

  it("gives them back where Prepare fails after them", async () => {
    rig.dataplane.bridges.delete("br0");
    await expect(rig.prepare(addressed("one", "u-1"))).rejects.toThrow("bridge-missing");
    expect(await ipam.verbs()).toEqual(["ADD claim-u-1", "DEL claim-u-1"]);
    expect(rig.records.ports.list()).toEqual([]);
  });

  it("is not prepared where the plugin fails, and says what the plugin says", async () => {
    await ipam.answer("ADD", { cniVersion: "1.0.0", code: 11, msg: "needs a network namespace" });
    const refused = rig.prepare(addressed("one", "u-1"));
    await expect(refused).rejects.toThrow(
      /ipam-failed: .*needs a network namespace.*dhcp does, cannot serve claims/,
    );
    expect(rig.records.allocations.list()).toEqual([]);
  });

  it("is not prepared where its plugin is not installed, which asks for no release", async () => {
    await expect(rig.prepare(addressed("one", "u-1", { ipam: { type: "absent" } }))).rejects.toThrow(
      "ipam-missing",
    );
    expect(rig.records.ports.list()).toEqual([]);
  });

  it("says to an IPAM with persistent addresses whose they are, by the names that every pod of a template has", async () => {
    const keys = { ipam: { type: ipam.type }, name: "blue", allowPersistentIPs: true };
    await rig.prepare({ ...addressed("web-x7-c-k2", "u-1", keys), podClaimName: "fast" });
    expect(await ipam.lastInput("ADD")).toMatchObject({ name: "blue", allowPersistentIPs: true });
    const [call] = await ipam.calls();
    expect(call?.args).toContain(";RESOURCE_CLAIM=fast;RESOURCE_CLAIM_REQUEST=net");
  });

  it.each([
    ["a name", { name: undefined }, {}, "allowPersistentIPs needs name and ipam"],
    ["ipam", { ipam: undefined }, {}, "allowPersistentIPs needs name and ipam"],
    ["a request for each device", {}, { results: [{}, {}] }, "the request has several"],
  ])("needs %s for persistent addresses", async (_, keys, more, message) => {
    const whole = { name: "blue", allowPersistentIPs: true, ...keys };
    await expect(rig.prepare({ ...addressed("one", "u-1", whole), ...more })).rejects.toThrow(message);
  });

  it("is refused where the daemon has no directory of plugins", async () => {
    Object.assign(rig.context, { ipam: undefined });
    await expect(rig.prepare(addressed("one", "u-1"))).rejects.toThrow(
      /setting-unsupported: .*dra\.ipamPlugins/,
    );
  });

  it("is unprepared while the plugin fails; the reconciler releases the addresses later", async () => {
    await rig.prepare(addressed("one", "u-1"));
    await ipam.answer("DEL", { cniVersion: "1.0.0", code: 11, msg: "busy" });
    await rig.unprepare();
    expect(rig.records.allocations.list()).toEqual([]);
    expect(await ipam.held()).toHaveLength(1);
    await ipam.answer("DEL", undefined);
    await rig.restartDriver();
    await passes(1);
    expect(await ipam.held()).toEqual([]);
    expect(rig.records.ports.list()).toEqual([]);
  });

  it("gives them back where its pod is gone and kubelet never unprepares it", async () => {
    await rig.prepare(addressed("one", "u-1"));
    await passes(2);
    expect(rig.records.allocations.list()).toEqual([]);
    expect(await ipam.held()).toEqual([]);
    expect(rig.records.ports.list()).toEqual([]);
  });
});

/** Passes of the reconciler, an hour later, when kubelet lists no pod but the daemon's. */
async function passes(count: number): Promise<void> {
  const clock = { ...systemClock, now: () => Date.now() + 3_600_000 };
  const context = { ...rig.context, clock };
  const reconciler = new Reconciler({
    ...{ context: context.node, places: context.places, locks: context.locks, logger: silentLogger, clock },
    ...{ observer: unobserved, ownPod: { namespace: "ns", name: "daemon" } },
    listPods: async () => [{ podNamespace: "ns", podName: "daemon", containers: [] }],
    repairClaims: () => releaseLeftAddresses(context),
  });
  for (let pass = 0; pass < count; pass++) await reconciler.pass();
  await reconciler.close();
}
