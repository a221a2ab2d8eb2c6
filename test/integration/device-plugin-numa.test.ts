import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openOvsDataplane } from "../../src/dataplane/ovs/ovs-dataplane.ts";
import { silentLogger } from "../../src/logging/logger.ts";
import { joinBridges, type OvsDpdk, startOvsDpdk } from "../lab/ovs-dpdk.ts";
import { type LabRun, openLabRun } from "../machine/lab-run.ts";

const BRIDGES = ["br-real", "br-joined", "br-absent", "br-mixed", "br-none"] as const;
/** A NIC that this machine does not have: the switch cannot open it, and only sysfs shows it. */
const ABSENT_NIC = "0000:fe:1f.7";

let run: LabRun;
let ovs: OvsDpdk;
let sysfs: string;
beforeAll(async () => {
  run = await openLabRun();
  ovs = await startOvsDpdk(run, { directory: join(run.directory, "ovs"), bridges: BRIDGES });
  sysfs = join(run.directory, "sys");
  const device = join(sysfs, "bus/pci/devices", ABSENT_NIC);
  await mkdir(device, { recursive: true });
  await writeFile(join(device, "numa_node"), "5\n");
  await addUplink("br-real", "real0", "net_null0");
  await addUplink("br-real", "real1", "net_null1");
  await addUplink("br-absent", "absent0", ABSENT_NIC);
  await addUplink("br-mixed", "mixed0", "net_null2");
  await addUplink("br-mixed", "mixed1", `${ABSENT_NIC},representor=[0]`);
  await joinBridges(ovs, "br-real", "br-joined");
});
afterAll(() => run?.close());

function addUplink(bridge: string, name: string, devargs: string): Promise<string> {
  // In double quotes, for a PCI address has colons and commas part ovs-vsctl's lists.
  const options = `options:dpdk-devargs="${devargs}"`;
  return ovs.vsctl(
    "--no-wait",
    "add-port",
    bridge,
    name,
    "--",
    "set",
    "Interface",
    name,
    "type=dpdk",
    options,
  );
}

describe("the NUMA node of a bridge in Open vSwitch with DPDK", () => {
  it.each([
    { what: "what DPDK says, where all uplinks agree", bridge: "br-real", node: 0 },
    { what: "that of the uplinks behind a patch port", bridge: "br-joined", node: 0 },
    { what: "what the kernel says of a NIC that the switch could not open", bridge: "br-absent", node: 5 },
    { what: "none where uplinks are on different nodes", bridge: "br-mixed", node: undefined },
    { what: "none without uplinks", bridge: "br-none", node: undefined },
    { what: "none for a bridge that is not there", bridge: "br-else", node: undefined },
  ])("is $what", async ({ bridge, node }) => {
    // The switch has taken the ports when it has taken a later change.
    await ovs.vsctl("set", "Open_vSwitch", ".", `external_ids:asked=${bridge}`);
    const options = { databaseSocket: ovs.databaseSocket, node: "n", logger: silentLogger, sysfs };
    const dataplane = openOvsDataplane(options);
    try {
      expect(await dataplane.numaNode(bridge, AbortSignal.timeout(60_000))).toBe(node);
    } finally {
      await dataplane.close();
    }
  });
});
