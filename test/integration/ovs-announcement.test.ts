import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { announcementFrames } from "../../src/announcement/frames.ts";
import { portSettingsSchema } from "../../src/config/port-settings.ts";
import type { Dataplane, LinkChange } from "../../src/dataplane/dataplane.ts";
import { portRequest, soon } from "../contract/switch-under-test.ts";
import { joinBridges } from "../lab/ovs-dpdk.ts";
import { startPod } from "../lab/pod.ts";
import { startTestpmd } from "../lab/testpmd.ts";
import { waitUntil } from "../machine/wait-until.ts";
import { type OvsRig, startOvsRig } from "./ovs-rig.ts";

const MAC = "02:00:00:00:00:07";
const PORT = "vhu0123456789ab";
const GROUP = "03:00:00:00:00:07";
const FRAMES = announcementFrames(
  { mac: MAC, addresses: ["10.9.0.5", "2001:db8::5"], vlans: [] },
  Buffer.from(GROUP.replaceAll(":", ""), "hex"),
);
/** What the switch is to find in the frames, on the far end of a cable that carries tags. */
const EXPECTED = {
  rarp: `dl_vlan=5,rarp,arp_op=3,dl_dst=ff:ff:ff:ff:ff:ff,arp_sha=${MAC},arp_tha=${MAC}`,
  group: `dl_vlan=5,rarp,arp_op=3,dl_dst=${GROUP},arp_sha=${MAC},arp_tha=${MAC}`,
  arp: `dl_vlan=5,arp,arp_op=1,arp_sha=${MAC},arp_spa=10.9.0.5,arp_tpa=10.9.0.5`,
  advertisement: `dl_vlan=5,icmp6,icmp_type=136,ipv6_src=2001:db8::5,nd_target=2001:db8::5,nd_tll=${MAC}`,
} as const;

/** A guest on an access port of br-a, and a cable to br-b, whose flows count what arrives. */
describe("announcing a guest through OVS-DPDK", () => {
  let rig: OvsRig;
  let dataplane: Dataplane;
  let changes: LinkChange[];
  let watching: Promise<void>;

  const request = (name = PORT) =>
    portRequest(rig, {
      name,
      owner: { containerId: name, mac: MAC },
      settings: portSettingsSchema.parse({ vlan: { mode: "access", tag: 5 } }),
    });
  const announce = (name = PORT) => dataplane.announce({ name, bridge: "br-a" }, FRAMES, soon());
  const arrived = async () => {
    await rig.ovs.appctl("revalidator/purge"); // brings the flows' counters up to date
    const flows = (await rig.ovs.ofctl("br-b", "dump-flows")).split("\n");
    return Object.keys(EXPECTED).map((_, index) =>
      Number(
        /n_packets=(\d+)/.exec(flows.find((flow) => flow.includes(`cookie=0x${index + 1},`)) ?? "")?.[1],
      ),
    );
  };
  const reported = (link: LinkChange["link"]) =>
    waitUntil(async () => changes.some((change) => change.port === PORT && change.link === link), {
      what: `the port is ${link}`,
      detail: () => JSON.stringify(changes),
    });
  const startGuest = async (name: string) => {
    const { socketPath } = request();
    const pod = await startPod(rig.run, name);
    const mounts = [{ hostPath: rig.socketDirectory, containerPath: rig.socketDirectory }];
    return startTestpmd(pod, { socketPath, mac: MAC, mounts });
  };

  beforeAll(async () => {
    rig = await startOvsRig();
    await joinBridges(rig.ovs, "br-a", "br-b");
  });
  beforeEach(async () => {
    await rig.ovs.ofctl("br-b", "del-flows");
    for (const [index, match] of Object.values(EXPECTED).entries()) {
      await rig.ovs.ofctl("br-b", "add-flow", `cookie=${index + 1},priority=1,${match},actions=drop`);
    }
    dataplane = rig.open();
    changes = [];
    await dataplane.ensurePort(request(), soon());
    watching = dataplane.watchLinks((change) => changes.push(change), AbortSignal.timeout(300_000));
    // Until it has seen all ports once it cannot know of any guest.
    const hasBegun = () => announce("absent").then((sent) => !sent);
    await waitUntil(() => hasBegun().catch(() => false), { what: "the watch has begun" });
  });
  afterEach(async () => {
    await dataplane.removePort(PORT, soon());
    await dataplane.close();
    await watching; // ends with the switch
  });
  afterAll(() => rig?.close());

  it("makes the network learn its MAC in its VLAN, as soon and as long as it is connected", async () => {
    expect(await announce(), "no guest has come yet").toBe(false);
    const guest = await startGuest("guest");
    await reported("up");
    expect(await arrived(), "nothing was sent before").toEqual([0, 0, 0, 0]);
    expect(await announce()).toBe(true);
    let counts: readonly number[] = [];
    const allArrived = async () => {
      counts = await arrived();
      return counts.every((count) => count > 0);
    };
    await waitUntil(allArrived, { what: "all arrive", detail: () => counts.join() });
    expect(counts).toEqual([1, 1, 1, 1]);
    const number = (await rig.ovs.vsctl("get", "Interface", PORT, "ofport")).trim();
    expect(await rig.ovs.appctl("fdb/show", "br-a")).toMatch(
      new RegExp(`^\\s*${number}\\s+5\\s+${MAC}`, "m"),
    );

    await guest.stop();
    await reported("down");
    expect(await announce(), "the guest has left").toBe(false);
    expect(await arrived()).toEqual([1, 1, 1, 1]);
  });

  it("has the switch refresh its MAC table for a guest that has left", async () => {
    // OpenFlow requests that the bridges received, from any client.
    const asked = async () => Number(await rig.ovs.appctl("coverage/read-counter", "ofproto_recv_openflow"));
    const before = await asked();
    dataplane.refreshMacTable?.("br-a");
    let more = 0;
    const isAsked = async () => {
      more = (await asked()) - before;
      return more >= 20;
    };
    await waitUntil(isAsked, { what: "it is asked 20 times", detail: () => `${more}` });
  });

  it("sends nothing for a port that is gone or another program's", async () => {
    await rig.makeForeignPort("foreign", `${rig.socketDirectory}/foreign.sock`);
    expect(await announce("foreign")).toBe(false);
    expect(await announce("absent")).toBe(false);
    await rig.ovs.vsctl("del-port", "foreign");
    expect(await arrived()).toEqual([0, 0, 0, 0]);
  });

  it("sees a guest that connected while the database was down", async () => {
    await rig.killControl();
    const guest = await startGuest("late");
    await guest.waitForSwitch();
    await rig.startControl();
    await reported("up");
    expect(changes).toEqual([{ port: PORT, link: "up" }]);
    expect(await announce()).toBe(true);
    await guest.stop();
  });
});
