import { existsSync, mkdirSync, rmSync } from "node:fs";
import { chmod, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { NodeStatus } from "../../src/status/shape.ts";
import { ClusterNode } from "../cluster/cluster-node.ts";
import { DpdkPod } from "../cluster/dpdk-pod.ts";
import { exampleNetwork } from "../cluster/network.ts";
import { BRIDGES, startSwitch } from "../cluster/switch.ts";
import type { OvsDpdk } from "../lab/ovs-dpdk.ts";
import { TESTPMD_HUGEPAGES, type Testpmd } from "../lab/testpmd.ts";
import { type LabRun, openLabRun } from "../machine/lab-run.ts";
import { waitUntil } from "../machine/wait-until.ts";
import { removeFromJournal } from "../stand-in/records/journal-files.ts";
import { jsonOf, runCtlOn, runCtlProgramOn } from "./ctl-node.ts";

const MAC = "02:00:00:00:00:01";
const PEER = "02:00:00:00:00:02";

let run: LabRun;
let ovs: OvsDpdk;
let node: ClusterNode;
let pod: DpdkPod;
let testpmd: Testpmd;

beforeAll(async () => {
  run = await openLabRun();
  ovs = await startSwitch(run, TESTPMD_HUGEPAGES);
  node = await ClusterNode.start(run, {
    name: "a",
    bridge: BRIDGES.a,
    databaseSocket: ovs.databaseSocket,
    // What a test breaks is not repaired by a pass.
    reclaim: { intervalSeconds: 3600, graceSeconds: 3600 },
  });
  pod = new DpdkPod({ run, node, name: "app", port: { network: await exampleNetwork() }, mac: MAC });
});
afterAll(() => run?.close());

const status = () => jsonOf<NodeStatus & { readonly problems: readonly object[] }>(node, "status");
/** The only interface of the node. */
async function theInterface(): Promise<NodeStatus["interfaces"][number]> {
  const [one] = (await status()).interfaces;
  if (one === undefined) throw new Error("there is no interface");
  return one;
}

interface Traced {
  readonly broken: string | null;
  readonly chain: readonly {
    readonly name: string;
    readonly verdict: string;
    readonly what: string;
    readonly cause?: string;
    readonly cure?: string;
  }[];
}

/**
 * Where the chain breaks and what was found there, after the program that people use has said the same.
 * @param damage breaks a link that the daemon repairs on its own, maybe before the answer: it is broken again then
 */
async function brokenAt(
  pod = "tests/app",
  damage?: { readonly link: string; readonly inflict: () => Promise<void> },
): Promise<{ readonly link: string; readonly verdict: string; readonly what: string }> {
  for (let tries = 1; ; tries += 1) {
    await damage?.inflict();
    const [traced] = await jsonOf<readonly Traced[]>(node, "trace", [pod]);
    // The daemon may have repaired the link by then.
    await damage?.inflict();
    const { code, stdout } = await runCtlOn(node, "trace", pod);
    const printed = /The chain breaks at (.+)\.$/m.exec(stdout)?.[1] ?? null;
    const isRepaired = [traced?.broken, printed].some((link) => link !== damage?.link);
    if (damage !== undefined && isRepaired && tries < 30) continue;
    const link = traced?.chain.at(-1);
    if (traced === undefined || traced.broken === null || link === undefined) {
      throw new Error("it is not broken");
    }
    expect([code, printed]).toEqual([1, traced.broken]);
    expect(stdout).toMatch(/^ {2}cause: \S/m);
    expect(stdout).toMatch(/^ {2}cure: {2}\S/m);
    return { link: traced.broken, verdict: link.verdict, what: link.what };
  }
}

async function brokenLinkNow(): Promise<string | null | undefined> {
  return (await jsonOf<readonly Traced[]>(node, "trace", ["tests/app"]))[0]?.broken;
}

async function untilWhole(): Promise<void> {
  let last = "";
  await waitUntil(
    async () => {
      const { code, stdout, stderr } = await runCtlOn(node, "trace", "app");
      last = stdout + stderr;
      return code === 0;
    },
    { what: "the chain is whole", detail: () => last },
  );
}

async function restartDaemon(): Promise<void> {
  await node.stopDaemon();
  await node.startDaemon();
}

describe("vhostuserctl on a node with a living pod", () => {
  it("refuses a pod that is not there, and says where to look", async () => {
    const { code, stderr } = await runCtlOn(node, "trace", "unknown");
    expect(code).toBe(2);
    expect(stderr).toContain("pod unknown has no vhost-user device on this node");
  });

  it("names the guest's socket as what an attached pod waits for, which is no problem of the node", async () => {
    await pod.attach();
    expect(await brokenAt()).toMatchObject({ link: "socket", verdict: "waiting" });
    expect((await runCtlOn(node, "status")).code).toBe(0);
  });

  it("traces a chain that is whole, and shows the interface with all that is known of it", async () => {
    testpmd = await pod.start(PEER);
    await untilWhole();
    const { stdout, code } = await runCtlProgramOn(node, "status");
    expect(code).toBe(0);
    expect((await runCtlProgramOn(node, "trace", "app")).code).toBe(0);
    const one = await theInterface();
    expect(one).toMatchObject({
      pod: { namespace: "tests", name: "app" },
      state: "attached",
      name: "net1",
      mac: MAC,
      podSocket: "/var/run/vhostuser/sockets/net1/vhost.sock",
      places: { socket: { kind: "socket" } },
      port: { bridge: BRIDGES.a, link: "up", connected: true, mtu: 1500, queuePairs: 1 },
    });
    expect(stdout).toContain("tests/app");
    expect(stdout).toContain(` in ${node.root}/${one.allocation}`);
    const row = new RegExp(
      `^ net1 +${one.device} +${one.port?.name} +yes +up +1 +1500 +[\\d-]+ +\\d+[sm].*$`,
      "m",
    );
    expect(stdout).toMatch(row);
  });

  it("counts what the guest sends", async () => {
    await testpmd.sendBursts(4);
    await waitUntil(async () => ((await theInterface()).port?.traffic?.fromGuest.packets ?? 0) >= 128, {
      what: "the switch has counted 128 packets",
    });
  });

  it("serves the status to root alone", async () => {
    const socket = join(dirname(node.cniSocket), "status.sock");
    expect((await stat(socket)).mode & 0o777).toBe(0o600);
  });

  it("names a port that was deleted and whose name another owner took, which the daemon cannot repair", async () => {
    const { portName = "" } = await theInterface();
    const other = ["type=dpdkvhostuserclient", `options:vhost-server-path=${run.directory}/other.sock`];
    await ovs.vsctl(
      ...["del-port", portName, "--", "add-port", BRIDGES.a, portName],
      ...["--", "set", "Interface", portName, ...other],
    );
    expect(await brokenAt()).toMatchObject({
      link: "port",
      verdict: "broken",
      what: `port ${portName} belongs to another program`,
    });
    const all = await runCtlOn(node, "status");
    expect(all.code).toBe(1);
    expect(all.stdout).toContain("see: vhostuserctl trace tests/app");
    await ovs.vsctl("del-port", portName);
    await restartDaemon();
    await untilWhole();
  });

  it("names a bridge that was deleted with its ports", async () => {
    await ovs.vsctl("del-br", BRIDGES.a);
    expect(await brokenAt()).toMatchObject({
      link: "port",
      what: expect.stringContaining('no bridge "br-a"'),
    });
    await ovs.vsctl("add-br", BRIDGES.a, "--", "set", "Bridge", BRIDGES.a, "datapath_type=netdev");
    await untilWhole();
  });

  it("counts repairs of a port that another program changed", async () => {
    const repairs = async () => (await status()).counts.repairs["port"] ?? 0;
    const before = await repairs();
    const { portName = "" } = await theInterface();
    await ovs.vsctl("set", "Interface", portName, "mtu_request=4000");
    await waitUntil(async () => (await repairs()) > before, {
      what: "the repair is counted",
    });
    await untilWhole();
  });

  it("names a directory that is gone", async () => {
    const { places } = await theInterface();
    const path = places?.directory.path ?? "";
    const inflict = () =>
      existsSync(`${path}-aside`)
        ? rm(path, { recursive: true, force: true })
        : rename(path, `${path}-aside`);
    const broken = await brokenAt("tests/app", { link: "directory", inflict });
    expect(broken).toMatchObject({ link: "directory", what: `${path} is not there` });
    // Over the empty one that the daemon has made meanwhile.
    await rename(`${path}-aside`, path);
    await untilWhole();
  });

  it("names the mode that a directory should have", async () => {
    const path = (await theInterface()).places?.directory.path ?? "";
    expect(
      await brokenAt("tests/app", { link: "directory", inflict: () => chmod(path, 0o700) }),
    ).toMatchObject({
      link: "directory",
      what: `${path} has owner 107:107 mode 0700, it should have owner 107:107 mode 2770`,
    });
    await chmod(path, 0o2770);
    await untilWhole();
  });

  it("names the device-info file that is missing", async () => {
    const directory = join(node.deviceInfoDirectory, "cni");
    const [name = ""] = await readdir(directory);
    const file = join(directory, name);
    const text = await readFile(file);
    const broken = await brokenAt("tests/app", {
      link: "device-info",
      inflict: () => rm(file, { force: true }),
    });
    expect(broken).toMatchObject({ link: "device-info", what: `${file} is not there` });
    await writeFile(file, text);
    await untilWhole();
  });

  it("names something else in the place of a device's device-info", async () => {
    const { device } = await theInterface();
    const file = join(node.deviceInfoDirectory, "dp", `vhostuser-sockets-${device}-device.json`);
    const inflict = async () => {
      // At once, or the daemon has written it again.
      rmSync(file, { recursive: true, force: true });
      mkdirSync(file);
    };
    expect(await brokenAt("tests/app", { link: "device-info", inflict })).toMatchObject({
      link: "device-info",
      what: expect.stringContaining("is wrong"),
    });
    await rm(file, { recursive: true, force: true });
    await untilWhole();
  });

  it("names a switch that is down, although its database still shows it as healthy", async () => {
    await ovs.killVswitchd();
    // The database may answer before it has noticed.
    await expect.poll(brokenLinkNow).toBe("port");
    expect(await brokenAt()).toMatchObject({
      link: "port",
      what: expect.stringContaining("ovs-vswitchd is not running"),
    });
    const all = await runCtlOn(node, "status");
    expect(all.stdout).toContain("pool sockets: ovs-vswitchd is not running");
    await ovs.restartVswitchd();
    // testpmd does not always start its queues again after a switch that was killed; the port is what is tried here.
    await waitUntil(async () => (await brokenLinkNow()) !== "port", {
      what: "the port is back",
    });
  });

  it("names a program that died and left its socket behind", async () => {
    testpmd.container.kill("SIGKILL");
    await waitUntil(async () => (await theInterface()).port?.connected === false, {
      what: "the switch has noticed",
    });
    expect(await brokenAt()).toMatchObject({ link: "connected", verdict: "waiting" });
  });

  it("says that the daemon does not run, and what works without it", async () => {
    await node.stopDaemon();
    for (const command of [["status"], ["trace", "app"]]) {
      const { code, stderr } = await runCtlOn(node, ...command);
      expect(code).toBe(2);
      expect(stderr).toContain("the daemon does not run on this node");
      expect(stderr).toContain("vhostuserctl doctor");
    }
    await node.startDaemon();
  });

  it("names a device that CNI has no record of, as after an ADD that failed", async () => {
    await node.stopDaemon();
    await rm(join(node.recordsDirectory, "ports"), { recursive: true });
    await node.startDaemon();
    expect(await brokenAt()).toMatchObject({
      link: "record",
      what: expect.stringContaining("sockets-00000"),
    });
  });

  it("names an allocation whose record is lost, and a pod that kubelet does not know any more", async () => {
    const other = new DpdkPod({
      run,
      node,
      name: "other",
      port: { network: await exampleNetwork() },
      mac: PEER,
    });
    await other.attach();
    const { interfaces } = await status();
    const { allocation, device } = interfaces.find(({ pod: { name } }) => name === "other") ?? {};
    await node.stopDaemon();
    await removeFromJournal(join(node.recordsDirectory, "allocations"), allocation ?? "");
    await node.startDaemon();
    expect(await brokenAt("other")).toMatchObject({
      link: "allocation",
      what: expect.stringContaining(`${device}`),
    });
    node.kubelet.removePod({ namespace: "tests", name: "other" });
    expect(await brokenAt("other")).toMatchObject({
      link: "pod",
      what: expect.stringContaining("does not list"),
    });
  });
});
