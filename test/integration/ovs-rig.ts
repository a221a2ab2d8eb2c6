import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { openOvsDataplane } from "../../src/dataplane/ovs/ovs-dataplane.ts";
import { silentLogger } from "../../src/logging/logger.ts";
import type { SwitchUnderTest } from "../contract/switch-under-test.ts";
import { type OvsDpdk, startOvsDpdk } from "../lab/ovs-dpdk.ts";
import { TESTPMD_HUGEPAGES } from "../lab/testpmd.ts";
import { reserveHugepages } from "../machine/hugepages.ts";
import { type LabRun, openLabRun } from "../machine/lab-run.ts";

/** Real OVS-DPDK as the contract suite needs it, plus what only OVS tests use. */
export interface OvsRig extends SwitchUnderTest {
  readonly ovs: OvsDpdk;
  readonly run: LabRun;
}

/** For tunnels; and for cores, of which the switch has one only, so that no queue may have it for itself. */
const WHAT_SETTINGS_NEED = [
  "other_config:vlan-limit=2",
  "other_config:pmd-rxq-assign=group",
  "other_config:pmd-rxq-isolate=false",
];

/** Starts OVS-DPDK with the bridges br-a and br-b, and hugepages for so many testpmds. */
export async function startOvsRig(testpmds = 1): Promise<OvsRig> {
  const run = await openLabRun();
  try {
    await reserveHugepages(run, 2048, testpmds * TESTPMD_HUGEPAGES);
    const ovs = await startOvsDpdk(run, { directory: join(run.directory, "ovs"), bridges: ["br-a", "br-b"] });
    await ovs.vsctl("set", "Open_vSwitch", ".", ...WHAT_SETTINGS_NEED);
    const socketDirectory = join(run.directory, "sockets");
    await mkdir(socketDirectory);
    return rigOf(run, ovs, socketDirectory);
  } catch (error) {
    await run.close(error);
    throw error;
  }
}

function rigOf(run: LabRun, ovs: OvsDpdk, socketDirectory: string): OvsRig {
  let switchDown = false;
  let controlDown = false;
  const bridges = ["br-a", "br-b"] as const;
  const listPorts = bridges.flatMap((bridge) => ["--", "list-ports", bridge]);
  const portNames = async () => lines(await ovs.vsctl("--no-wait", ...listPorts)).sort();
  const startSwitch = async () => {
    await ovs.restartVswitchd();
    switchDown = false;
  };
  const startControl = async () => {
    await ovs.restartDatabase();
    controlDown = false;
    // The switch itself has to come back to the database too, or its next change waits for its back-off.
    await ovs.vsctl("set", "Open_vSwitch", ".", `external_ids:lab-seen=${Date.now()}`);
  };
  return {
    ovs,
    run,
    bridges,
    socketDirectory,
    open: (node = "node-a") =>
      openOvsDataplane({ databaseSocket: ovs.databaseSocket, node, logger: silentLogger }),
    makeForeignPort: async (name, socketPath) => {
      const type = "type=dpdkvhostuserclient";
      const path = `options:vhost-server-path=${socketPath}`;
      await ovs.vsctl("add-port", bridges[0], name, "--", "set", "Interface", name, type, path);
    },
    portNames,
    lacks: ["routed"],
    belongings: async () => lines(await ovs.vsctl("--bare", "--columns=_uuid", "list", "QoS")),
    removeBehindOurBack: async (port) => {
      await ovs.vsctl("del-port", port);
    },
    reset: async () => {
      if (controlDown) await startControl();
      if (switchDown) await startSwitch();
      const listQos = ["--", "--columns=_uuid", "list", "QoS"];
      const found = lines(await ovs.vsctl("--no-wait", "--bare", "list-br", ...listPorts, ...listQos));
      const left = found.filter((name) => !bridges.some((one) => one === name));
      if (left.length === 0) return;
      // Whatever of these it is.
      const remove = left.flatMap((name) =>
        ["del-br", "del-port"].flatMap((verb) => ["--", "--if-exists", verb, name]),
      );
      await ovs.vsctl(...remove);
      await ovs.vsctl("--all", "destroy", "QoS");
    },
    killSwitch: async () => {
      switchDown = true;
      await ovs.killVswitchd();
    },
    startSwitch,
    killControl: async () => {
      controlDown = true;
      await ovs.killDatabase();
    },
    startControl,
    close: () => run.close(),
  };
}

function lines(text: string): string[] {
  return text.split("\n").filter(Boolean);
}
