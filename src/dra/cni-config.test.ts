import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { IpamPlugin } from "../../test/stand-in/cni/ipam-plugin.ts";
import { type ClaimWish, cniConfig, portParameters } from "../../test/stand-in/dra/claim-object.ts";
import { DraRig } from "../../test/stand-in/dra/dra-rig.ts";

let rig: DraRig;
beforeEach(async () => {
  rig = await DraRig.open({ mayConfigure: ["mtu", "vlan", "ipam"] });
});
afterEach(() => rig.close());

const network = { cniVersion: "1.1.0", name: "blue", type: "kube-vhostuser" };
/** A claim with these configurations. */
const claim = (...config: readonly [ConfigSource, object, (readonly string[])?][]): ClaimWish => ({
  ...{ name: "c", uid: "u-1" },
  config: config.map(([source, parameters, requests]) => ({
    ...{ source, parameters },
    ...(requests && { requests }),
  })),
});
type ConfigSource = "FromClass" | "FromClaim";
const ports = () => rig.records.ports.list();

describe("a CNIConfig of type kube-vhostuser", () => {
  it("makes the port at Prepare, which no network namespace is needed for, and removes it at Unprepare", async () => {
    const config = cniConfig({ ...network, vlan: 100, mtu: 9000, capabilities: { deviceID: true } });
    const [device] = await rig.prepare(claim(["FromClass", config]));
    expect(rig.container(device === undefined ? [] : [device]).env).toEqual([
      "VHOSTUSER_CLAIM_C__NET=/var/run/vhostuser/claims/c/net/vhost.sock",
    ]);
    expect(ports()).toMatchObject([
      { state: "attached", mtu: 9000, settings: { vlan: { mode: "access", tag: 100 } }, netns: "" },
    ]);
    expect(rig.reports.at(-1)?.devices).toMatchObject([{ interfaceName: "net1" }]);
    await rig.unprepare();
    expect([ports(), rig.dataplane.ports.size]).toEqual([[], 0]);
  });

  it("may be text, and a list of this one plugin", async () => {
    const { cniVersion, name, ...plugin } = network;
    const list = JSON.stringify({ cniVersion, name, plugins: [{ ...plugin, mtu: 1400 }] });
    await rig.prepare(claim(["FromClaim", cniConfig(list)]));
    expect(ports()).toMatchObject([{ mtu: 1400 }]);
  });

  it("has addresses of the network by its name, by an IPAM plugin that the daemon runs", async () => {
    const directory = join(rig.config.recordsDirectory, "ipam");
    const ipam = await IpamPlugin.install({ binDir: rig.config.dra.ipamPlugins ?? "", directory });
    const config = cniConfig({ ...network, ipam: { type: ipam.type, range: "a" } });
    await rig.prepare(claim(["FromClaim", config]));
    expect(await ipam.lastInput("ADD")).toMatchObject({ name: "blue", ipam: { range: "a" } });
    expect(ports()[0]?.lease?.given?.ips).toMatchObject([{ address: "10.9.0.1/24" }]);
    await rig.unprepare();
    expect(await ipam.held()).toEqual([]);
  });

  it.each<readonly [string, ClaimWish, string | RegExp]>([
    [
      "a key that claims may not set",
      claim(["FromClaim", cniConfig({ ...network, bridge: "br1" })]),
      "a claim may not set bridge here",
    ],
    [
      "a mistyped key",
      claim(["FromClass", cniConfig({ ...network, vlann: 1 })]),
      /vlann: there is no such key .*write vlan$/,
    ],
    [
      "another plugin",
      claim(["FromClass", cniConfig({ ...network, type: "macvlan" })]),
      /config has the plugins macvlan.*cni\.dra\.networking\.x-k8s\.io/,
    ],
    [
      "a second plugin",
      claim([
        "FromClass",
        cniConfig({
          ...{ cniVersion: "1.1.0", name: "blue" },
          plugins: [{ type: "kube-vhostuser" }, { type: "tuning" }],
        }),
      ]),
      "config has the plugins kube-vhostuser, tuning",
    ],
    [
      "another configuration beside it",
      claim(["FromClass", portParameters({ vlan: 1 })], ["FromClaim", cniConfig(network)]),
      "a CNIConfig is not merged",
    ],
    ["a name that pods have", claim(["FromClass", cniConfig(network, "eth0")]), 'ifName "eth0" cannot be'],
    [
      "the ifName of another request",
      {
        ...claim(["FromClass", cniConfig(network)]),
        results: [{ request: "a" }, { request: "b" }],
      },
      /request . of claim c has the same name in the pod, net1/,
    ],
    [
      "keys that contradict each other",
      claim(["FromClass", cniConfig({ ...network, trunk: [{ id: 1 }], vlan: 2 })]),
      "stands beside trunk",
    ],
    ["no network's name", claim(["FromClass", cniConfig({ ...network, name: undefined })]), "name"],
    ["text that is not JSON", claim(["FromClass", cniConfig("{")]), "is a text that is not JSON"],
  ])("is refused with %s, and nothing is left", async (_, wish, message) => {
    await expect(rig.prepare(wish)).rejects.toThrow(message);
    expect(rig.reports.at(-1)?.devices[0]?.problem?.code).toBe("invalid-claim");
    expect([ports(), rig.dataplane.ports.size]).toEqual([[], 0]);
  });
});
