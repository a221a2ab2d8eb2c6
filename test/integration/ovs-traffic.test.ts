import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type PortSettings, portSettingsSchema } from "../../src/config/port-settings.ts";
import type { Dataplane } from "../../src/dataplane/dataplane.ts";
import { portRequest, soon } from "../contract/switch-under-test.ts";
import { joinBridges } from "../lab/ovs-dpdk.ts";
import { startPod } from "../lab/pod.ts";
import { BURST_PACKETS, startTestpmd, type Testpmd } from "../lab/testpmd.ts";
import { waitUntil } from "../machine/wait-until.ts";
import { type OvsRig, startOvsRig } from "./ovs-rig.ts";

const NAMES = ["sender", "one", "two"] as const;
type Name = (typeof NAMES)[number];
/** Every test sends as many frames. */
const SENT = 4 * BURST_PACKETS;
/** What one full frame takes of a burst: 1500 bytes of MTU and two VLAN tags. testpmd's frames take 50 bytes. */
const SMALLEST_BURST_BITS = 1508 * 8;
const PASS_IN_SMALLEST_BURST = Math.floor(1508 / 50);

const access = (tag: number): PortSettings => portSettingsSchema.parse({ vlan: { mode: "access", tag } });
const trunk = (...trunks: number[]): PortSettings =>
  portSettingsSchema.parse({ vlan: { mode: "trunk", trunks } });

/** Frames that the two receivers got, and those that came over the cable by their tag. */
interface Counts {
  readonly one: number;
  readonly two: number;
  readonly tag5: number;
  readonly untagged: number;
}

/**
 * Frames of one testpmd to two others on br-a, and over a cable to br-b, where flows count them by VLAN. No receiver
 * ever sends, so that the switch floods each frame to all whom the settings allow. Settings are changed under
 * guests that are connected: a lost connection would lose frames.
 */
describe("frames through ports with settings", () => {
  let rig: OvsRig;
  let dataplane: Dataplane;
  const guests = new Map<Name, Testpmd>();
  let resetsAtStart: string[];
  const linkResets = () =>
    Promise.all(NAMES.map((name) => rig.ovs.vsctl("get", "Interface", name, "link_resets")));

  const request = (name: Name, settings: PortSettings, mtu = 1500) =>
    portRequest(rig, {
      name,
      mtu,
      settings,
      owner: { containerId: name, mac: `02:00:00:00:00:0${NAMES.indexOf(name) + 1}` },
    });
  const guest = (name: Name) => {
    const found = guests.get(name);
    if (found === undefined) throw new Error(`${name} was not started`);
    return found;
  };
  const configure = async (settings: Readonly<Record<Name, PortSettings>>, mtu?: number) => {
    for (const name of NAMES) {
      const asked = request(name, settings[name], name === "one" ? mtu : undefined);
      await dataplane.ensurePort(asked, soon());
      // The switch reports the MTU in force a little later.
      const asAsked = async () => (await dataplane.checkPort(asked, soon())).length === 0;
      await waitUntil(asAsked, { what: `${name} is as asked` });
    }
  };
  const statistic = async (name: Name, key: string) =>
    Number(await rig.ovs.vsctl("--if-exists", "get", "Interface", name, `statistics:${key}`));

  /** Frames that came over the cable, by what they were tagged with. */
  const countCable = async () => {
    await rig.ovs.appctl("revalidator/purge"); // brings the flows' counters up to date
    const flows = await rig.ovs.ofctl("br-b", "dump-flows");
    const of = (match: string) =>
      Number(new RegExp(`n_packets=(\\d+),[^\n]*${match} actions`).exec(flows)?.[1]);
    return { tag5: of("dl_vlan=5"), untagged: of("vlan_tci=0x0000/0x1fff") };
  };
  const receive = async (): Promise<Counts> => ({
    one: (await guest("one").counts()).rx,
    two: (await guest("two").counts()).rx,
    ...(await countCable()),
  });
  /** Sends, and returns how much more each has received, once all of `whole` have received everything. */
  const send = async (whole: readonly (keyof Counts)[], bytes?: number): Promise<Counts> => {
    const before = await receive();
    await guest("sender").sendBursts(SENT / BURST_PACKETS, bytes);
    let more = before;
    const all = async () => {
      const now = await receive();
      more = {
        one: now.one - before.one,
        two: now.two - before.two,
        tag5: now.tag5 - before.tag5,
        untagged: now.untagged - before.untagged,
      };
      return whole.every((key) => more[key] >= SENT) && more;
    };
    const what = `${whole.join(" and ")} get ${SENT} frames`;
    return waitUntil(all, { what, detail: () => JSON.stringify(more) });
  };
  /** Waits until a guest has received as many frames more: it may count them later than the switch does. */
  const received = (name: Name, before: number, least: number) =>
    waitUntil(
      async () => {
        const more = (await guest(name).counts()).rx - before;
        return more >= least && more;
      },
      { what: `${name} gets ${least} frames` },
    );
  /** The growth of a counter that the switch updates every five seconds. */
  const grown = (name: Name, key: string, before: number, by: number) =>
    waitUntil(async () => (await statistic(name, key)) - before >= by, {
      what: `${key} of ${name} grows by ${by}`,
    });

  beforeAll(async () => {
    rig = await startOvsRig(NAMES.length);
    dataplane = rig.open();
    await joinBridges(rig.ovs, "br-a", "br-b");
    await rig.ovs.ofctl("br-b", "del-flows");
    await rig.ovs.ofctl("br-b", "add-flow", "priority=1,dl_vlan=5,actions=drop");
    await rig.ovs.ofctl("br-b", "add-flow", "priority=1,vlan_tci=0x0000/0x1fff,actions=drop");
    await configure({ sender: {}, one: {}, two: {} });
    for (const name of NAMES) {
      const { socketPath, owner } = request(name, {});
      const testpmd = await startTestpmd(await startPod(rig.run, name), {
        socketPath,
        mac: owner.mac,
        peerMac: "02:00:00:00:00:99",
        mounts: [{ hostPath: rig.socketDirectory, containerPath: rig.socketDirectory }],
      });
      guests.set(name, testpmd);
    }
    for (const testpmd of guests.values()) await testpmd.waitForSwitch();
    for (const name of ["one", "two"] as const) await guest(name).forward("rxonly");
    await rig.ovs.vsctl(...NAMES.flatMap((name) => ["--", "wait-until", "Interface", name, "link_state=up"]));
    resetsAtStart = await linkResets();
  });
  afterAll(async () => {
    await dataplane?.close();
    await rig?.close();
  });

  it("reach all guests without settings", async () => {
    expect(await send(["one", "two", "untagged"])).toEqual({ one: SENT, two: SENT, tag5: 0, untagged: SENT });
  });

  it("leave an access port for its VLAN only, and carry its tag on the cable", async () => {
    await configure({ sender: access(5), one: access(5), two: access(6) });
    expect(await send(["one", "tag5"])).toEqual({ one: SENT, two: 0, tag5: SENT, untagged: 0 });
  });

  it("reach a trunk that carries their VLAN, and none that does not", async () => {
    await configure({ sender: access(5), one: trunk(4, 5), two: trunk(6) });
    expect(await send(["one", "tag5"])).toEqual({ one: SENT, two: 0, tag5: SENT, untagged: 0 });
  });

  it("do not go from one isolated port to another, and still leave the bridge", async () => {
    await configure({ sender: { isolated: true }, one: { isolated: true }, two: {} });
    expect(await send(["two", "untagged"])).toEqual({ one: 0, two: SENT, tag5: 0, untagged: SENT });
  });

  it("beyond what a guest may send are dropped, and the others pass", async () => {
    const fromGuest = { rate: 1, burst: SMALLEST_BURST_BITS };
    await configure({ sender: { fromGuest }, one: {}, two: {} });
    const before = await statistic("sender", "ovs_rx_qos_drops");
    const { rx } = await guest("one").counts();
    await guest("sender").sendBursts(SENT / BURST_PACKETS);
    await grown("sender", "ovs_rx_qos_drops", before, SENT / 2);
    expect(await received("one", rx, PASS_IN_SMALLEST_BURST)).toBeLessThan(SENT);
  });

  it.each<[string, PortSettings, number]>([
    ["one rate", { toGuest: { rate: 8, burst: SMALLEST_BURST_BITS } }, PASS_IN_SMALLEST_BURST],
    [
      "two rates",
      {
        toGuest: {
          rate: 8,
          burst: SMALLEST_BURST_BITS,
          excess: { rate: 8, burst: SMALLEST_BURST_BITS },
        },
      },
      2 * PASS_IN_SMALLEST_BURST,
    ],
  ])("beyond what a guest may receive are dropped for it alone: %s", async (_, limited, pass) => {
    await configure({ sender: {}, one: limited, two: {} });
    const before = await statistic("one", "ovs_tx_qos_drops");
    const { rx } = await guest("one").counts();
    await send(["two", "untagged"]);
    await grown("one", "ovs_tx_qos_drops", before, SENT - pass - BURST_PACKETS);
    expect(await received("one", rx, pass)).toBeLessThan(SENT);
  });

  it("pass again when the limits are gone", async () => {
    await configure({ sender: {}, one: {}, two: {} });
    expect(await send(["one", "two"])).toMatchObject({ one: SENT, two: SENT });
  });

  it("longer than the receiver's MTU are dropped for it alone, and counted", async () => {
    await configure({ sender: {}, one: {}, two: {} }, 1000);
    const before = await statistic("one", "ovs_tx_mtu_exceeded_drops");
    expect(await send(["two", "untagged"], 1400)).toMatchObject({ one: 0, two: SENT });
    await grown("one", "ovs_tx_mtu_exceeded_drops", before, SENT);
    await configure({ sender: {}, one: {}, two: {} });
    expect(await send(["one", "two"], 1400)).toMatchObject({ one: SENT, two: SENT });
  });

  it("went through ports that never lost their guest, whatever was changed", async () => {
    await configure({ sender: { transmitRetries: 32 }, one: { receiveQueueCores: [[0, 1]] }, two: {} });
    expect(await send(["one", "two"])).toMatchObject({ one: SENT, two: SENT });
    expect(await linkResets()).toEqual(resetsAtStart);
  });
});
