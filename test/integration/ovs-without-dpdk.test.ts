import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Dataplane } from "../../src/dataplane/dataplane.ts";
import { openOvsDataplane } from "../../src/dataplane/ovs/ovs-dataplane.ts";
import { silentLogger } from "../../src/logging/logger.ts";
import { failureOf, portRequest, soon } from "../contract/switch-under-test.ts";
import { type OvsDpdk, startOvsDpdk } from "../lab/ovs-dpdk.ts";
import { type LabRun, openLabRun } from "../machine/lab-run.ts";

describe("a switch that runs without DPDK", () => {
  let run: LabRun;
  let ovs: OvsDpdk;
  let dataplane: Dataplane;
  const request = () => portRequest({ bridges: ["br-a", "br-b"], socketDirectory: run.directory });

  beforeAll(async () => {
    run = await openLabRun();
    ovs = await startOvsDpdk(run, { directory: join(run.directory, "ovs"), bridges: ["br-a"], dpdk: false });
    const databaseSocket = ovs.databaseSocket;
    dataplane = openOvsDataplane({ databaseSocket, node: "node-a", logger: silentLogger });
  });
  afterAll(async () => {
    await dataplane?.close();
    await run?.close();
  });

  it("is refused, and the failure says which setting is missing", async () => {
    const failure = await failureOf(dataplane.ensurePort(request(), soon()));
    expect(failure.code).toBe("dataplane-misconfigured");
    expect(failure.message).toContain("other_config:dpdk-init=true");
    const readiness = await dataplane.probe("br-a", soon());
    expect(readiness).toMatchObject({ ready: false, reason: expect.stringContaining("without DPDK") });
  });

  it("has its own words passed on when it cannot make a port, and nothing of the port is left", async () => {
    // Stopped, the switch cannot correct the columns that say what it can do, so that the port gets into the
    // database; when it continues it meets an interface type that it does not know.
    const { vswitchd } = ovs.pids();
    process.kill(vswitchd, "SIGSTOP");
    let failing: Promise<unknown>;
    try {
      const claims = ["dpdk_initialized=true", "iface_types=dpdkvhostuserclient"];
      await ovs.vsctl("--no-wait", "set", "Open_vSwitch", ".", ...claims);
      failing = failureOf(dataplane.ensurePort(request(), soon()));
      await ovs.vsctl("--no-wait", "wait-until", "Interface", request().name);
    } finally {
      process.kill(vswitchd, "SIGCONT");
    }
    expect(await failing).toMatchObject({
      code: "port-failed",
      message: expect.stringContaining("could not open network device vhu0123456789ab"),
    });
    expect(await ovs.vsctl("list-ports", "br-a")).toBe("");
  });
});
