import { access } from "node:fs/promises";
import { join } from "node:path";
import { type Child, startChild } from "../machine/child.ts";
import { reserveHugepages } from "../machine/hugepages.ts";
import type { LabRun } from "../machine/lab-run.ts";
import type { NetworkNamespace } from "./network-namespace.ts";
import { missingOvs, ovsEnvironment, runOvsTool, STOP_LIMIT_MS, startOvsdbServer } from "./ovsdb-server.ts";

const VSWITCHD = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk";
const SOCKET_MEMORY_MIB = 512;
/** The longest sleep of a polling thread to which nothing comes. */
const POLLING_PAUSE_US = 200;

/** A real ovsdb-server and a real OVS-DPDK switch in a directory of their own. */
export interface OvsDpdk {
  readonly directory: string;
  readonly databaseSocket: string;
  /** Log of ovs-vswitchd; it says what the database's error column does not. */
  readonly vswitchdLog: string;
  /** Pids of what runs now. `nsenter --net --target <vswitchd>` enters the switch's network namespace. */
  pids(): { readonly ovsdbServer: number; readonly vswitchd: number };
  /** ovs-vsctl, waiting until the switch has applied the change; add `--no-wait` where it is down. */
  vsctl(...args: string[]): Promise<string>;
  /** ovs-appctl on the switch, for example `dpctl/dump-flows`. */
  appctl(...args: string[]): Promise<string>;
  /** ovs-ofctl on a bridge's management socket: `ofctl("br-a", "dump-ports-desc")`. */
  ofctl(bridge: string, command: string, ...args: string[]): Promise<string>;
  /** SIGKILL, as in a crash; ports stay in the database. */
  killVswitchd(): Promise<void>;
  /** Starts the switch again (ending it first where it runs) and waits until it has applied the database. */
  restartVswitchd(): Promise<void>;
  killDatabase(): Promise<void>;
  restartDatabase(): Promise<void>;
  /** Both are killed and start with an empty database: the switch is set up, but has no bridges. */
  startEmpty(): Promise<void>;
  close(): Promise<void>;
}

/** Where and how to run it. */
export interface OvsDpdkOptions {
  /** Made where it is missing; unix sockets lie in it, so keep it below about 80 bytes. */
  readonly directory: string;
  /** Bridges to make, all with datapath_type netdev. */
  readonly bridges: readonly string[];
  /** False leaves DPDK off: the switch starts in a moment, needs no hugepages and refuses vhost-user ports. */
  readonly dpdk?: boolean;
  /** Where it runs, so that links to it outlive a restart; default a namespace that comes and goes with each start. */
  readonly network?: NetworkNamespace;
}

/**
 * Starts the switch, with hugepages of its own, and waits until its bridges are up; it goes with the run. DPDK runs
 * with --no-pci (else it takes the machine's own network card) and --in-memory: no hugetlbfs mount, no runtime files,
 * so that several of them do not meet, and a killed switch leaks no hugepage. The switch has a network namespace of
 * its own, because bridges make tap devices of their name.
 * @throws Failure part-missing where OVS is not installed or the kernel gives no hugepages
 */
export async function startOvsDpdk(run: LabRun, options: OvsDpdkOptions): Promise<OvsDpdk> {
  const { directory, network } = options;
  const dpdk = options.dpdk ?? true;
  await access(VSWITCHD).catch((cause: unknown) => {
    throw missingOvs(VSWITCHD, cause);
  });
  if (dpdk) await reserveHugepages(run, 2048, SOCKET_MEMORY_MIB / 2);
  const database = await startOvsdbServer(run, { directory });
  const tool = (name: string, ...args: string[]) => runOvsTool(directory, name, args);
  const vsctl = (...args: string[]) =>
    tool("ovs-vsctl", `--db=unix:${database.databaseSocket}`, "--retry", "--timeout=50", ...args);
  const control = join(directory, "vswitchd.ctl");
  const vswitchdLog = join(directory, "vswitchd.log");

  let starts = 0;
  const start = async (): Promise<Child> => {
    const program = await startChild(run, {
      name: "ovs-vswitchd",
      command: network === undefined ? "unshare" : "nsenter",
      args: [
        network === undefined ? "--net" : `--net=${network.path}`,
        VSWITCHD,
        `unix:${database.databaseSocket}`,
        `--unixctl=${control}`,
        `--log-file=${vswitchdLog}`,
        "-vconsole:off",
      ],
      env: ovsEnvironment(directory),
      fix: "apt-get install util-linux",
      logDirectory: directory,
      stopLimitMs: STOP_LIMIT_MS,
    });
    starts += 1;
    // Any change that vsctl waits for shows that the switch has read the whole database.
    const applied = vsctl("set", "Open_vSwitch", ".", `external_ids:lab-starts=${starts}`);
    try {
      await Promise.race([applied, program.died]);
    } catch (error) {
      applied.catch(() => undefined);
      await program.stop("SIGKILL");
      throw error;
    }
    return program;
  };

  await database.vsctl("set", "Open_vSwitch", ".", ...settings(dpdk));
  let vswitchd = await start();
  const make = options.bridges.flatMap((name) => [
    ...["--", "add-br", name],
    ...["--", "set", "Bridge", name, "datapath_type=netdev"],
  ]);
  if (make.length > 0) await vsctl(...make);

  return {
    directory,
    databaseSocket: database.databaseSocket,
    vswitchdLog,
    pids: () => ({ ovsdbServer: database.pid(), vswitchd: vswitchd.pid }),
    vsctl,
    appctl: (...args) => tool("ovs-appctl", "-t", control, ...args),
    ofctl: (bridge, command, ...args) =>
      tool("ovs-ofctl", command, `unix:${join(directory, `${bridge}.mgmt`)}`, ...args),
    killVswitchd: () => vswitchd.stop("SIGKILL"),
    restartVswitchd: async () => {
      await vswitchd.stop();
      vswitchd = await start();
    },
    killDatabase: () => database.kill(),
    restartDatabase: () => database.restart(),
    startEmpty: async () => {
      await vswitchd.stop("SIGKILL");
      await database.kill();
      await database.startEmpty();
      await database.vsctl("set", "Open_vSwitch", ".", ...settings(dpdk));
      vswitchd = await start();
    },
    close: async () => {
      await vswitchd.stop();
      await database.close();
    },
  };
}

function settings(dpdk: boolean): string[] {
  if (!dpdk) return ["other_config:dpdk-init=false"];
  return [
    "other_config:dpdk-init=true",
    `other_config:dpdk-socket-mem="${SOCKET_MEMORY_MIB}"`,
    // Else DPDK would take every page that is free for its packet buffers, guests' and pods' too.
    `other_config:dpdk-socket-limit="${SOCKET_MEMORY_MIB}"`,
    // 60 MiB for each guest. The shared pool is tried with 752 MiB first: until that has failed no memory is free, and
    // a second guest that connects in this moment is refused ("failed to allocate memory for dev->guest_pages").
    "other_config:per-port-memory=true",
    "other_config:pmd-cpu-mask=0x2",
    // Polling without a pause it would take half of the machine from the guests, and answer them later for it.
    `other_config:pmd-maxsleep=${POLLING_PAUSE_US}`,
    'other_config:dpdk-extra="--no-pci --in-memory"',
  ];
}

/** Joins two bridges as a network between nodes does. */
export async function joinBridges(ovs: OvsDpdk, one: string, other: string): Promise<void> {
  const end = (bridge: string, to: string) => [
    ...["--", "add-port", bridge, `${bridge}-to-${to}`],
    ...["--", "set", "Interface", `${bridge}-to-${to}`, "type=patch", `options:peer=${to}-to-${bridge}`],
  ];
  await ovs.vsctl(...end(one, other), ...end(other, one));
}
