import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Guest } from "../guest/guest.ts";
import { type LabRun, openLabRun } from "../machine/lab-run.ts";
import { requireMachine } from "../machine/packages.ts";
import { descendantsOf, identifyProcess, isRunning } from "../machine/process-table.ts";
import { runProgram } from "../machine/run-program.ts";
import { buildPartsRig, type PartsPod, type PartsRig, POD_SOCKETS } from "./parts-rig.ts";
import { BURST_PACKETS, startTestpmd } from "./testpmd.ts";

// The lab's parts without our product: where this fails, the product's lab tests mean nothing.

const MAC_A = "52:54:00:0a:00:01";
const MAC_C = "52:54:00:0a:00:03";
const MAC_TESTPMD = "52:54:00:0a:00:09";
const ADDRESS_A = "10.9.0.1";
const ADDRESS_C = "10.9.0.3";

let run: LabRun;
let rig: PartsRig;
let podA1: PartsPod;
let podC: PartsPod;
let guestA: Guest;
let guestC: Guest;

beforeAll(async () => {
  await requireMachine();
  run = await openLabRun({ progress: (line) => console.log(line) });
  rig = await buildPartsRig(run);
  [podA1, podC] = await Promise.all([rig.addVmPod("a1", "br-a"), rig.addVmPod("c", "br-b")]);
  guestA = await rig.boot(podA1, { name: "vm-a", mac: MAC_A, address: `${ADDRESS_A}/24` });
  guestC = await rig.boot(podC, { name: "vm-c", mac: MAC_C, address: `${ADDRESS_C}/24`, hugepageKiB: 2048 });
});

afterAll(async () => {
  await run?.close();
});

test("two guests ping each other through two bridges, one of them on hugepages", async () => {
  await guestA.waitForPeer(ADDRESS_C);
  const there = await guestA.ping(ADDRESS_C, 100);
  const back = await guestC.ping(ADDRESS_A, 100);
  console.log("pings", there, back);
  expect([there.lost, back.lost]).toEqual([0, 0]);
  expect(await podC.libvirt.dumpXml("vm-c")).toContain("<hugepages>");
});

test("QEMU runs as user 107 and made its socket in the pod's own directory", async () => {
  expect(existsSync(join(run.directory, "sockets-of-a1/vhost.sock"))).toBe(true);
  const { stdout } = await podA1.libvirt.container.run("stat", ["-c", "%u:%g", `${POD_SOCKETS}/vhost.sock`]);
  expect(stdout.trim()).toBe("107:107");
});

test("every packet that testpmd sends arrives at a guest, and the switch's answer path works too", async () => {
  const pod = await rig.addPod("dpdk", "br-a");
  const testpmd = await startTestpmd(pod, {
    socketPath: `${POD_SOCKETS}/vhost.sock`,
    mac: MAC_TESTPMD,
    peerMac: MAC_C,
    mounts: [{ hostPath: pod.sockets, containerPath: POD_SOCKETS }],
  });
  await testpmd.waitForSwitch();
  const count = await guestC.startCount(MAC_C, MAC_TESTPMD);
  const sent = await testpmd.sendBursts(4);
  const arrived = await count.stop();
  console.log("testpmd", sent, "guest", arrived);
  expect(sent.tx).toBe(4 * BURST_PACKETS);
  expect(arrived.frames).toBe(sent.tx);

  await testpmd.forward("icmpecho");
  const answered = await guestC.ping("10.9.0.9", 20);
  const last = await testpmd.stop();
  console.log("pings answered by testpmd", answered, last);
  expect(answered.received).toBe(20);
  expect(last.rx).toBeGreaterThanOrEqual(20);
  await pod.close();
});

test("a guest moves to another pod on the other bridge while it is pinged every 10 ms", async () => {
  const podA2 = await rig.addVmPod("a2", "br-b");
  const measurement = await guestC.startPing(ADDRESS_A, 10);
  const figures = await podA1.libvirt.migrate("vm-a", podA2.libvirt);
  guestA.console.moveTo(podA2.consolePath);
  // Asked at C: a ping from A would teach the switch where A is now and hide the network's part of the outage.
  await guestC.waitForPeer(ADDRESS_A);
  const pings = await measurement.stop();
  console.log("migration", figures, pings);

  expect(await podA1.libvirt.state("vm-a")).toBe("shut off");
  expect(await podA2.libvirt.state("vm-a")).toBe("running");
  expect(figures.downtimeMs).toBeGreaterThan(0);
  expect(pings.received).toBeGreaterThan(0);
  expect(pings.sent).toBe(pings.received + pings.lost);
  const after = await guestC.ping(ADDRESS_A, 50);
  expect(after.received).toBeGreaterThan(0);
});

test("nothing is left when the run ends", async () => {
  const { ovsdbServer, vswitchd } = rig.ovs.pids();
  const pids = [ovsdbServer, vswitchd, podA1.libvirt.container.hostPid, podC.libvirt.container.hostPid];
  const processes = pids
    .flatMap((pid) => [pid, ...descendantsOf(pid)])
    .flatMap((pid) => identifyProcess(pid) ?? []);
  expect(processes.length).toBeGreaterThan(pids.length);
  await run.close();
  expect(processes.filter(isRunning)).toEqual([]);
  expect(existsSync(run.directory)).toBe(false);
  const { stdout } = await runProgram("ip", ["netns", "list"]);
  expect(stdout).not.toContain(run.name);
  const mounts = await runProgram("cat", ["/proc/self/mounts"]);
  expect(mounts.stdout).not.toContain(run.directory);
});
