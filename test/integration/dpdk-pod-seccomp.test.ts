import { readFile } from "node:fs/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { exampleContainer } from "../cluster/dpdk-pod.ts";
import { type Pod, startPod } from "../lab/pod.ts";
import { TESTPMD_HUGEPAGES } from "../lab/testpmd.ts";
import { reserveHugepages } from "../machine/hugepages.ts";
import { type LabRun, openLabRun } from "../machine/lab-run.ts";
import { TESTPMD_PATH } from "../machine/testpmd-program.ts";

let run: LabRun;
let pod: Pod;
beforeAll(async () => {
  run = await openLabRun();
  await reserveHugepages(run, 2048, TESTPMD_HUGEPAGES);
  pod = await startPod(run, "pod");
});
afterAll(() => run?.close());

/** What the example's testpmd prints that was given no port and ends at once, with the capabilities of the example or these. */
async function testpmd(file: string, capabilities?: readonly string[]): Promise<string> {
  const { security, command } = exampleContainer(file);
  const [, memory = ""] = /dpdk-testpmd ((?:--[a-z-]+ )+)/.exec(command) ?? [];
  expect(memory).toContain("--in-memory");
  const container = await pod.startContainer({
    ...security,
    ...(capabilities === undefined ? {} : { runtimeSeccomp: capabilities }),
    name: `${file}-${capabilities?.join("-")}`,
    command: [
      ...[TESTPMD_PATH, ...memory.trim().split(" "), "-m", "16", "--no-telemetry", "--lcores=0@0,1@0"],
      ...["--vdev=net_null0", "--", "--total-num-mbufs=2048", "--tx-first", "--stats-period=0", "--help"],
    ],
    mounts: [{ hostPath: TESTPMD_PATH, containerPath: TESTPMD_PATH, readOnly: true }],
  });
  await container.ended;
  return readFile(container.log, "utf8");
}

describe.each(["dpdk-pod.yaml", "dpdk-pod-client.yaml"])("the example %s", (file) => {
  it("has its memory under the seccomp profile that runtimes use by default", async () => {
    const printed = await testpmd(file);
    expect(printed).not.toContain("Operation not permitted");
    // testpmd's own usage: DPDK was initialized.
    expect(printed).toContain("--total-num-mbufs");
  });

  it("has none there without the capability that it adds, with libnuma before 2.0.19", async () => {
    const printed = await testpmd(file, []);
    expect(printed).toContain("set_mempolicy: Operation not permitted");
    expect(printed).toContain("Cannot init memory");
  });
});
