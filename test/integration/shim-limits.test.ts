import { chmod, copyFile, mkdir, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { compileShim } from "../../scripts/build/compile-shim.ts";
import { openLabRun } from "../machine/lab-run.ts";
import { limitedCgroup } from "../shim/limited-cgroup.ts";
import { type RunningShim, startShim } from "../shim/run-shim.ts";
import { playDaemon } from "../shim/scripted-daemon.ts";

const KIB = 1024;
const MIB = 1024 * KIB;
/** What the manifest of Multus' thick plugin gives to its daemon, whose children CNI plugins are. */
const MULTUS = { memoryBytes: 50 * MIB, cpuMillis: 100 };
const AT_ONCE = 16;

/** A root file system with nothing but the executable, a static plugin and the daemon's directory. */
let root: string;

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "kvu-shim-root-"));
  await mkdir(join(root, "opt/cni/bin"), { recursive: true });
  await mkdir(join(root, "run/kube-vhostuser"), { recursive: true });
  await compileShim({ output: join(root, "opt/cni/bin/kube-vhostuser") });
  // busybox is the command that its name says.
  await copyFile("/bin/busybox", join(root, "opt/cni/bin/cat"));
  await chmod(join(root, "opt/cni/bin/cat"), 0o755);
});
afterEach(() => rm(root, { recursive: true, force: true }));

function call(stdin: Buffer, before = ":"): RunningShim {
  const env = { CNI_COMMAND: "ADD", CNI_CONTAINERID: "c0ffee", CNI_IFNAME: "net1", CNI_PATH: "/opt/cni/bin" };
  const shell = `PATH=/usr/sbin:/usr/bin:/sbin:/bin; ${before} && exec chroot ${root} /opt/cni/bin/kube-vhostuser`;
  return startShim({ executable: "" }, { env, stdin, shell });
}

/** Highest resident set so far, in bytes. */
async function peakResident(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  expect(status).toContain("Name:\tkube-vhostuser");
  return Number(/VmHWM:\s+(\d+) kB/.exec(status)?.[1]) * KIB;
}

describe("the CNI executable under Multus' limits", () => {
  it.each([
    ["a usual configuration", 2 * KIB],
    ["stdin of 1 MiB", MIB],
  ])("has less than 2 MiB resident with %s and a delegate behind it", async (_name, size) => {
    let peak: Promise<number> | undefined;
    let running: RunningShim | undefined;
    const daemon = await playDaemon(join(root, "run/kube-vhostuser/cni.sock"), async (side) => {
      await side.delegate({ type: "cat", stdin: '{"ips":[]}' });
      peak = peakResident(running?.process.pid ?? 0);
      await peak.finally(() => side.answer(0, '{"cniVersion":"1.0.0"}\n'));
    });
    running = call(Buffer.alloc(size, 0x20));
    expect(await running.ended).toMatchObject({ code: 0, stdout: '{"cniVersion":"1.0.0"}\n' });
    await daemon.close();
    const bytes = (await peak) ?? Number.NaN;
    console.log(`resident with ${size / KIB} KiB of stdin: ${bytes / KIB} KiB`);
    expect(bytes).toBeLessThan(2 * MIB);
  });

  it(`serves ${AT_ONCE} calls at once in 50 MiB and a tenth of a processor, in an empty chroot`, async () => {
    const run = await openLabRun();
    onTestFinished(() => run.close());
    await using cgroup = await limitedCgroup(run.journal, basename(root), MULTUS);
    const config = Buffer.from(JSON.stringify({ cniVersion: "1.0.0", pad: "x".repeat(20 * KIB) }));
    const daemon = await playDaemon(join(root, "run/kube-vhostuser/cni.sock"), async (side) => {
      const end = await side.delegate({ type: "cat", stdin: side.request.stdin });
      side.answer(0, end?.stdout ?? "");
    });
    const calls = Array.from({ length: AT_ONCE }, () => call(config, cgroup.enter));
    const ends = await Promise.all(calls.map(({ ended }) => ended));
    await daemon.close();
    for (const end of ends) expect(end).toMatchObject({ code: 0, stdout: config.toString(), stderr: "" });
    expect(await cgroup.oomKills()).toBe(0);
    const [peak, throttled] = [await cgroup.peakBytes(), await cgroup.throttled()];
    console.log(
      `${AT_ONCE} calls at once: ${Math.round(peak / KIB)} KiB at most, throttled ${throttled} times`,
    );
    expect(peak).toBeGreaterThan(0);
    expect(peak).toBeLessThan(MULTUS.memoryBytes);
  });
});
