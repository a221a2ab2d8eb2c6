import { realpathSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import type { DataplaneConfig } from "./open-dataplane.ts";

/** How a switch's program is recognised among a node's processes, and where its administrator finds out more. */
export interface SwitchProgram {
  /** Matches the process name, which the kernel cuts at 15 characters. */
  readonly processName: RegExp;
  /** Matches the executable's file name. */
  readonly programFile: RegExp;
  /** File with the id of this switch's process, where there is one. */
  readonly pidfile?: string;
  /** A command or a log, for people. */
  readonly whereToLook: string;
}

export function switchProgram(config: DataplaneConfig): SwitchProgram {
  switch (config.type) {
    case "ovs-dpdk":
      return {
        // Debian's build with DPDK is ovs-vswitchd-dpdk, RHEL's ovs-vswitchd.dpdk.
        processName: /^ovs-vswitchd([-.]dp)?$/,
        programFile: /^ovs-vswitchd([-.]dpdk)?$/,
        pidfile: join(dirname(config.database), "ovs-vswitchd.pid"),
        whereToLook:
          "systemctl status openvswitch-switch, or the log of its pod; ovs-vswitchd.log says why DPDK is off",
      };
    case "vpp":
      return {
        processName: /^vpp(_main)?$/,
        programFile: /^vpp$/,
        whereToLook: "systemctl status vpp, or the log of its pod",
      };
  }
}

/**
 * Where a path leads, as far as it exists: two paths to one socket (`/run` and `/var/run`, a link) give the same. A
 * switch that is down may have no socket, so a missing path is returned as written.
 */
function whereLeads(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    const parent = dirname(path);
    return parent === path ? path : join(whereLeads(parent), basename(path));
  }
}

/** Path of the socket that identifies a switch; its other keys may change without it becoming another one. */
export function socketOf(config: DataplaneConfig): string {
  return whereLeads(config.type === "ovs-dpdk" ? config.database : config.apiSocket);
}

/** Whether both are the same switch, so that one connection is enough. */
export function isSameSwitch(one: DataplaneConfig, other: DataplaneConfig): boolean {
  return one.type === other.type && socketOf(one) === socketOf(other) && runOf(one) === runOf(other);
}

/** The configured directory of the bridges' OpenFlow sockets. */
function runOf(config: DataplaneConfig): string | undefined {
  const directory = config.type === "ovs-dpdk" ? config.runDirectory : undefined;
  return directory && whereLeads(directory);
}
