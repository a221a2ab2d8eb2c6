import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openOvsDataplane } from "../../src/dataplane/ovs/ovs-dataplane.ts";
import { silentLogger } from "../../src/logging/logger.ts";
import { joinBridges, type OvsDpdk, startOvsDpdk } from "../lab/ovs-dpdk.ts";
import { type LabRun, openLabRun } from "../machine/lab-run.ts";
import { makePciSysfs } from "../stand-in/pci-sysfs.ts";

const BRIDGES = ["br-real", "br-joined", "br-absent", "br-bond", "br-mixed", "br-none"] as const;
/** A NIC that this machine does not have, with two ports: the switch cannot open it, and only sysfs shows it. */
const ABSENT_NIC = ["0000:fe:1f.6", "0000:fe:1f.7"] as const;
const ABSENT = { numaNode: 5, pcieRoot: "pci0000:fd" };

let run: LabRun;
let ovs: OvsDpdk;
let sysfs: string;
beforeAll(async () => {
  run = await openLabRun();
  ovs = await startOvsDpdk(run, { directory: join(run.directory, "ovs"), bridges: BRIDGES });
  sysfs = await makePciSysfs(
    run.directory,
    ABSENT_NIC.map((address) => ({ address, below: "pci0000:fd/0000:fd:00.0", numaNode: 5 })),
  );
  await addUplink("br-real", "real0", "net_null0");
  await addUplink("br-real", "real1", "net_null1");
  await addUplink("br-absent", "absent0", ABSENT_NIC[0]);
  await addUplink("br-bond", "bond0", ABSENT_NIC[0]);
  await addUplink("br-bond", "bond1", ABSENT_NIC[1]);
  await addUplink("br-mixed", "mixed0", "net_null2");
  await addUplink("br-mixed", "mixed1", `${ABSENT_NIC[1]},representor=[0]`);
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

describe("the uplink of a bridge in Open vSwitch with DPDK", () => {
  it.each([
    { what: "what DPDK says, where all ports agree", bridge: "br-real", is: { numaNode: 0, mtu: 1500 } },
    { what: "that behind a patch port", bridge: "br-joined", is: { numaNode: 0, mtu: 1500 } },
    {
      what: "what the kernel says of a NIC that the switch could not open",
      bridge: "br-absent",
      is: { ...ABSENT, pciAddress: ABSENT_NIC[0] },
    },
    { what: "no single PCI device where it is two ports of a card", bridge: "br-bond", is: ABSENT },
    { what: "nothing where ports have nothing in common", bridge: "br-mixed", is: {} },
    { what: "nothing without ports", bridge: "br-none", is: {} },
    { what: "nothing for a bridge that is not there", bridge: "br-else", is: {} },
  ])("is $what", async ({ bridge, is }) => {
    // The switch has taken the ports when it has taken a later change.
    await ovs.vsctl("set", "Open_vSwitch", ".", `external_ids:asked=${bridge}`);
    const options = { databaseSocket: ovs.databaseSocket, node: "n", logger: silentLogger, sysfs };
    const dataplane = openOvsDataplane(options);
    try {
      expect(await dataplane.uplink(bridge, AbortSignal.timeout(60_000))).toEqual(is);
    } finally {
      await dataplane.close();
    }
  });
});
