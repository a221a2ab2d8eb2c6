import { readFile } from "node:fs/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { buildAll } from "../../scripts/build/build-all.ts";
import { executeLine } from "../../src/protocols/vpp-api/messages.ts";
import { ClusterNode } from "../cluster/cluster-node.ts";
import { smallVmi } from "../cluster/example-vm.ts";
import { exampleNetwork } from "../cluster/network.ts";
import { VmPod } from "../cluster/vm-pod.ts";
import { soon } from "../contract/switch-under-test.ts";
import { buildGuestImage } from "../guest/image.ts";
import { startRealVpp } from "../integration/vpp-process.ts";
import { startVppRig, type VppRig } from "../integration/vpp-rig.ts";
import { findGuestKernel } from "../machine/guest-kernel.ts";
import { waitUntil } from "../machine/wait-until.ts";

// What only VPP itself can show: it moves packets, which its stand-in does not.

const MAC = { one: "02:00:00:00:05:01", two: "02:00:00:00:05:02" };
const ADDRESS = { one: "10.5.0.1", two: "10.5.0.2" };

let vpp: VppRig;
let node: ClusterNode;
let vms: { readonly one: VmPod; readonly two: VmPod };

beforeAll(async () => {
  const binary = process.env["VPP_BIN"];
  if (binary === undefined) throw new Error("VPP_BIN names no VPP; npm run test:vpp says what it needs");
  await buildAll();
  vpp = await startVppRig((run, directory) => startRealVpp(run, binary, directory));
  node = await ClusterNode.start(vpp.run, {
    name: "a",
    bridge: "blue",
    databaseSocket: "",
    pool: { dataplane: { type: "vpp", apiSocket: vpp.apiSocket, bridge: "blue" } },
    // What comes back at once must not come with a pass that would have come anyway.
    reclaim: { intervalSeconds: 600, graceSeconds: 3 },
  });
  const kernel = await findGuestKernel();
  if (kernel === undefined) throw new Error("no guest kernel; npm test installs it");
  const [image, network] = [await buildGuestImage(kernel), await exampleNetwork()];
  const boot = async (name: "one" | "two") => {
    const vmi = smallVmi({ name, mac: MAC[name] });
    const vm = new VmPod({ run: vpp.run, node, name, vmi, network, image });
    await vm.allocate();
    await vm.attach();
    await vm.launch();
    await vm.define();
    await vm.boot();
    await vm.guest.setAddress(MAC[name], `${ADDRESS[name]}/24`);
    return vm;
  };
  vms = { one: await boot("one"), two: await boot("two") };
});
afterAll(() => vpp?.close());

describe("guests of libvirt and QEMU in VPP", () => {
  it("reach each other", async () => {
    await vms.one.guest.waitForPeer(ADDRESS.two);
    for (const [vm, address] of [
      [vms.one, ADDRESS.two],
      [vms.two, ADDRESS.one],
    ] as const) {
      expect((await vm.guest.ping(address, 50)).received).toBeGreaterThan(0);
    }
  });

  const announced = async () =>
    (await readFile(node.daemonLog, "utf8")).split("announced a guest to the network").length - 1;

  it("are announced by the daemon when they reconnect, on each other's ports too, where VPP offers it", async () => {
    const before = await announced();
    if (!(await vpp.offers("announcements"))) {
      await vpp.killSwitch();
      await vpp.startSwitch();
      const log = () => readFile(node.daemonLog, "utf8");
      await waitUntil(async () => (await log()).includes("this VPP cannot announce guests"), {
        what: "the log says that guests are not announced",
      });
      expect(await announced()).toBe(0);
      return;
    }
    const counted = await vms.two.guest.startCount(MAC.two, MAC.one);
    await vpp.killSwitch();
    await vpp.startSwitch();
    await waitUntil(async () => (await announced()) >= before + 2, {
      what: "both guests are announced",
    });
    // The first of its RARP requests at least; the guests themselves are silent.
    const { frames } = await counted.stop();
    console.log(`guest two heard ${frames} frames of guest one after a restart of VPP`);
    expect(frames).toBeGreaterThan(0);
    const streams = () =>
      vpp.withVpp(async (connection) => {
        const { reply } = await connection.request(executeLine, { cmd: "show packet-generator" }, soon());
        return reply.trim();
      });
    // The daemon repeats it for a second and a half.
    await waitUntil(async () => (await streams()) === "no streams currently defined", {
      what: "no stream is left",
    });
  });

  it("reach each other again after each kill of VPP, without help", async () => {
    for (const kill of [1, 2]) {
      const pings = await vms.one.guest.startPing(ADDRESS.two, 50);
      // What is measured is the time between answers, so there have to be some before and after.
      await vms.two.guest.ping(ADDRESS.one, 20);
      const killed = performance.now();
      await vpp.killSwitch();
      await vpp.startSwitch();
      const begin = performance.now();
      await waitUntil(
        () =>
          vpp.withVpp(
            async (_, { ports }) => ports.length === 2 && ports.every(({ vhost }) => vhost.num_regions > 0),
          ),
        { what: "VPP has both guests' memory", everyMs: 50 },
      );
      console.log(
        `kill ${kill}: VPP was down for ${Math.round(begin - killed)} ms, both guests are connected ${Math.round(performance.now() - begin)} ms later`,
      );
      await vms.two.guest.waitForPeer(ADDRESS.one, 30_000);
      await vms.two.guest.ping(ADDRESS.one, 20);
      const { longestLossMs, longestGapMs, lost, sent } = await pings.stop();
      console.log(
        `kill ${kill}: outage ${longestLossMs} ms (gap ${longestGapMs}), ${lost} of ${sent} pings lost`,
      );
      expect((await vms.one.guest.ping(ADDRESS.two, 50)).received).toBeGreaterThan(0);
    }
  });
});
