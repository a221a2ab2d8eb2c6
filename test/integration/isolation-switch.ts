import { chmod, chown, readdir } from "node:fs/promises";
import { join } from "node:path";
import { ovsEnvironment, runOvsTool, STOP_LIMIT_MS, startOvsdbServer } from "../lab/ovsdb-server.ts";
import { startChild } from "../machine/child.ts";
import { reserveHugepages } from "../machine/hugepages.ts";
import type { LabRun } from "../machine/lab-run.ts";

const VSWITCHD = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk";
const SOCKET_MEMORY_MIB = 256;
/** What Open vSwitch itself keeps when it runs as a user (`--user`), for the tap device of each bridge. */
const CAPABILITIES = "-all,+net_admin,+net_raw,+net_broadcast,+ipc_lock";

/** A real OVS-DPDK whose switch runs as a user. */
export interface UserSwitch {
  readonly databaseSocket: string;
  readonly pid: number;
  /** Log of ovs-vswitchd. */
  readonly log: string;
  vsctl(...args: string[]): Promise<string>;
}

/** Starts OVS-DPDK with one bridge; it goes with the run. The run's directory becomes one that others may pass. */
export async function startUserSwitch(
  run: LabRun,
  user: { readonly uid: number; readonly gid: number; readonly bridge: string },
): Promise<UserSwitch> {
  const directory = join(run.directory, "ovs");
  await reserveHugepages(run, 2048, SOCKET_MEMORY_MIB / 2);
  const database = await startOvsdbServer(run, { directory });
  await chmod(run.directory, 0o711);
  for (const path of [directory, ...(await readdir(directory)).map((name) => join(directory, name))]) {
    await chown(path, user.uid, user.gid);
  }
  await database.vsctl(
    ...["set", "Open_vSwitch", ".", "other_config:dpdk-init=true", "other_config:pmd-cpu-mask=0x2"],
    `other_config:dpdk-socket-mem="${SOCKET_MEMORY_MIB}"`,
    `other_config:dpdk-socket-limit="${SOCKET_MEMORY_MIB}"`,
    'other_config:dpdk-extra="--no-pci --in-memory --iova-mode=va"',
  );
  const log = join(directory, "vswitchd.log");
  const program = await startChild(run, {
    name: "ovs-vswitchd",
    command: "unshare",
    args: [
      ...["--net", "setpriv", "--reuid", String(user.uid), "--regid", String(user.gid), "--clear-groups"],
      ...[`--inh-caps=${CAPABILITIES}`, `--ambient-caps=${CAPABILITIES}`, `--bounding-set=${CAPABILITIES}`],
      ...["--", VSWITCHD, `unix:${database.databaseSocket}`, `--unixctl=${join(directory, "vswitchd.ctl")}`],
      ...[`--log-file=${log}`, "-vconsole:off"],
    ],
    env: ovsEnvironment(directory),
    fix: "apt-get install --no-install-recommends openvswitch-switch-dpdk",
    stopLimitMs: STOP_LIMIT_MS,
  });
  // With --retry and without --no-wait: it is done when the switch has applied the change.
  const vsctl = (...args: string[]) =>
    runOvsTool(directory, "ovs-vsctl", [
      ...[`--db=unix:${database.databaseSocket}`, "--retry", "--timeout=50", ...args],
    ]);
  const made = vsctl("add-br", user.bridge, "--", "set", "Bridge", user.bridge, "datapath_type=netdev");
  await Promise.race([made, program.died]);
  return { databaseSocket: database.databaseSocket, pid: program.pid, log, vsctl };
}
