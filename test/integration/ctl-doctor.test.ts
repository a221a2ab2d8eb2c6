import { mkdir, rmdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ClusterNode } from "../cluster/cluster-node.ts";
import { BRIDGES, startSwitch } from "../cluster/switch.ts";
import type { OvsDpdk } from "../lab/ovs-dpdk.ts";
import { type LabRun, openLabRun } from "../machine/lab-run.ts";
import { runProgram } from "../machine/run-program.ts";
import { jsonOf, runCtlInContainer, runCtlProgramOn } from "./ctl-node.ts";

let run: LabRun;
let ovs: OvsDpdk;
let node: ClusterNode;

beforeAll(async () => {
  run = await openLabRun();
  // One free page: the switch uses its own.
  ovs = await startSwitch(run, 1);
  // As Open vSwitch's own scripts have it written: there may be others on this machine, of other users.
  await writeFile(join(ovs.directory, "ovs-vswitchd.pid"), `${ovs.pids().vswitchd}\n`);
  node = await ClusterNode.start(run, {
    name: "a",
    bridge: BRIDGES.a,
    databaseSocket: ovs.databaseSocket,
    reclaim: { intervalSeconds: 3600, graceSeconds: 3600 },
  });
});
afterAll(() => run?.close());

interface Examined {
  readonly name: string;
  readonly findings: readonly { readonly verdict: string; readonly what: string; readonly cure?: string }[];
}

/** What is wrong by now, each as `check: what`. */
async function problems(): Promise<readonly string[]> {
  const examined = await jsonOf<readonly Examined[]>(node, "doctor", [], runCtlProgramOn);
  return examined.flatMap(({ name, findings }) =>
    findings.filter(({ verdict }) => verdict === "problem").map(({ what }) => `${name}: ${what}`),
  );
}

describe("vhostuserctl doctor", () => {
  it("finds a node healthy that is", async () => {
    expect(await problems()).toEqual([]);
    const { code, stdout } = await runCtlProgramOn(node, "doctor");
    expect(code).toBe(0);
    expect(stdout).toMatch(/^switch +ok +pool sockets: bridge br-a of Open vSwitch/m);
    expect(stdout).toMatch(/^permissions +ok +ovs-vswitchd/m);
  });

  it("needs no more than the daemon's own capabilities", async () => {
    const { code, stdout, stderr } = await runCtlInContainer(node, "doctor");
    expect([code, stderr]).toEqual([0, ""]);
    expect(stdout).toMatch(/\nno problems/);
    expect((await runCtlInContainer(node, "status")).code).toBe(0);
  });

  it("finds a bridge of the kernel's datapath", async () => {
    await ovs.vsctl("set", "Bridge", BRIDGES.a, "datapath_type=system");
    expect(await problems()).toEqual([
      expect.stringMatching(/^switch: pool sockets: .*vhost-user needs "netdev"/),
    ]);
    await ovs.vsctl("set", "Bridge", BRIDGES.a, "datapath_type=netdev");
  });

  it("finds ports and directories without a record", async () => {
    const directory = join(node.root, "zzzzzzzzzzzzzzzz");
    await mkdir(directory);
    const marks = ["external_ids:owner=kube-vhostuser", "external_ids:node=a"];
    await ovs.vsctl("add-port", BRIDGES.a, "vhulost", "--", "set", "Port", "vhulost", ...marks);
    expect(await problems()).toEqual([
      expect.stringContaining("leftovers: port vhulost on bridge br-a"),
      `leftovers: directory ${directory} has no record`,
    ]);
    await ovs.vsctl("del-port", "vhulost");
    await rmdir(directory);
  });

  it("finds a root that has lost a flag", async () => {
    await runProgram("mount", ["-o", "remount,nosuid,nodev,noexec,symfollow", node.root]);
    expect(await problems()).toEqual([
      expect.stringMatching(/^root: .*its mount lacks nosymfollow/),
      expect.stringMatching(/^daemon: .*its mount lacks nosymfollow/),
    ]);
    await runProgram("mount", ["-o", "remount,nosuid,nodev,noexec,nosymfollow", node.root]);
  });

  it("works while daemon, switch and kubelet are down, and names them", async () => {
    await node.stopDaemon();
    await ovs.killVswitchd();
    await node.kubelet.stop();
    // The pidfile names no process now, and any other switch of this machine may be the node's.
    const found = (await problems()).filter((one) => !/^permissions: ovs-vswitchd\S* \(pid /.test(one));
    expect(found).toEqual([
      expect.stringMatching(/^kubelet: device plugins: .*does not answer/),
      expect.stringMatching(/^kubelet: PodResources: .*does not answer/),
      expect.stringContaining("daemon: the daemon does not run on this node"),
      expect.stringMatching(/^CNI socket: .*does not answer/),
      "switch: pool sockets: ovs-vswitchd is not running",
    ]);
    expect((await runCtlProgramOn(node, "doctor")).code).toBe(1);
  });
});
