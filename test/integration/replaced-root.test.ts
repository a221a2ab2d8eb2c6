import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { watchDirectory } from "../../src/files/watch-directory.ts";
import { mountRoot } from "../../src/node-setup/mount-root/mount-root.ts";
import { ClusterNode, SOCKETS } from "../cluster/cluster-node.ts";
import { DpdkPod } from "../cluster/dpdk-pod.ts";
import { exampleNetwork } from "../cluster/network.ts";
import { BRIDGES, startSwitch } from "../cluster/switch.ts";
import { freePort } from "../machine/free-port.ts";
import { type LabRun, openLabRun } from "../machine/lab-run.ts";
import { runProgram } from "../machine/run-program.ts";
import { jsonOf, runCtlProgramOn } from "./ctl-node.ts";

let run: LabRun;
beforeAll(async () => {
  run = await openLabRun();
});
afterAll(() => run?.close());

/** Over what is mounted there already. */
async function mount(path: string, args: readonly string[]): Promise<void> {
  const trace = run.journal.note({ kind: "mount", path });
  run.cleanup.defer(`unmount ${path}`, async () => {
    await runProgram("umount", ["-l", path]);
    run.journal.strike(trace);
  });
  await runProgram("mount", args);
}

describe("a root that is mounted over the one before", () => {
  it("is watched from then on", async () => {
    const root = join(run.directory, "again");
    await mkdir(root);
    const tmpfs = ["-t", "tmpfs", "-o", "mode=0755,size=1m,nr_inodes=0", "vhostuser", root];
    await mount(root, tmpfs);
    let changes = 0;
    const watch = watchDirectory({ path: root, onChange: () => changes++, onError: () => undefined });
    await watch.ready;
    await mount(root, tmpfs);
    await expect.poll(() => changes, { timeout: 60_000 }).toBe(1);
    await writeFile(join(root, "one"), "");
    await expect.poll(() => changes, { timeout: 60_000 }).toBeGreaterThan(1);
    await watch.close();
  });
});

describe("a root that is unmounted on the node under its daemon", () => {
  let node: ClusterNode;
  let url: string;
  let made: string;

  beforeAll(async () => {
    const ovs = await startSwitch(run, 0);
    const port = await freePort();
    url = `http://127.0.0.1:${port}`;
    const directory = join(run.directory, "a");
    await mkdir(directory);
    await mount(directory, ["--bind", directory, directory]);
    await runProgram("mount", ["--make-shared", directory]);
    // As in a container, whose volume follows what is mounted over the root, and not what is unmounted.
    const container = 'mount --make-private "$0" && exec "$@"';
    node = await ClusterNode.start(run, {
      ...{ name: "a", bridge: BRIDGES.a, databaseSocket: ovs.databaseSocket },
      keys: { observe: { address: "127.0.0.1", port } },
      daemonPrefix: ["unshare", "--mount", "--propagation=slave", "sh", "-c", container, directory],
    });
    await attach("before");
  });

  const attach = async (name: string) =>
    new DpdkPod({
      run,
      node,
      name,
      port: { network: await exampleNetwork() },
      mac: "02:00:00:00:00:01",
    }).attach();
  const probe = async () => (await fetch(`${url}/readyz`)).text();
  const brokenAt = async (pod: string) => {
    const [one] = await jsonOf<readonly { readonly broken: string | null }[]>(node, "trace", [pod]);
    return one?.broken;
  };

  it("is noticed: by readiness, metric, trace and doctor, and no pod gets a device any more", async () => {
    expect(await probe()).toContain("root: ok");
    expect(await brokenAt("before")).toBe("socket");
    await runProgram("umount", ["-l", node.root]);
    expect(await probe()).toContain("root: NOT OK, the root");
    expect(await (await fetch(`${url}/metrics`)).text()).toContain("\nvhostuser_root_usable 0\n");
    expect(await brokenAt("before")).toBe("directory");
    const resources = { "vhostuser/dataplane": 1 };
    const containers = [{ name: "ovs", resources }];
    expect(await node.kubelet.admitPod({ namespace: "tests", name: "ovs", containers })).toMatchObject({
      phase: "Running",
    });
    for (const command of ["status", "doctor"]) {
      const printed = (await runCtlProgramOn(node, command)).stdout.replace(/\s+/g, " ");
      expect(printed).toContain("was unmounted on the node");
      expect(printed).toContain("the switch's pod tests/ovs");
    }
    await node.kubelet.waitForAllocatable(SOCKETS, 0, 60_000);
  });

  it("is mounted by the next daemon's first step, although the runtime has made directories in its place", async () => {
    made = join(node.root, "0123456789abcdef");
    await mkdir(made);
    await node.stopDaemon();
    expect(await mountRoot({ root: node.root, sizeMiB: 16 })).toBe("mounted");
    await node.startDaemon();
    expect(await probe()).toContain("root: ok");
    await attach("after");
    expect(await brokenAt("after")).toBe("socket");
  });

  it("leaves pods with the old one, which are named", async () => {
    expect(await brokenAt("before")).toBe("directory");
    const { stdout } = await runCtlProgramOn(node, "doctor");
    expect(stdout.replace(/\s+/g, " ")).toMatch(/PROBLEM tests\/before: \S+ was made again/);
  });
});
