import { readFile } from "node:fs/promises";
import { cpus, loadavg, release, totalmem } from "node:os";
import { runProgram } from "../machine/run-program.ts";

const VSWITCHD = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk";

/** On what the figures were taken, in lines for people: figures without it cannot be compared. */
export async function describeMachine(): Promise<readonly string[]> {
  const processors = cpus();
  const osRelease = await readFile("/etc/os-release", "utf8");
  const system = /^PRETTY_NAME="?([^"\n]*)/m.exec(osRelease)?.[1] ?? "unknown system";
  const { stdout } = await runProgram(VSWITCHD, ["--version"]);
  const version = (pattern: RegExp) => pattern.exec(stdout)?.[1] ?? "?";
  const switchVersion = `Open vSwitch ${version(/vSwitch\) ([\d.]+)/)}, DPDK ${version(/DPDK ([\d.]+)/)}`;
  const memory = `${(totalmem() / 2 ** 30).toFixed(1)} GiB`;
  return [
    `${processors.length} x ${processors[0]?.model.trim()}, ${memory}, ${system}, Linux ${release()}`,
    `${switchVersion} (one polling thread), Node ${process.version}, load ${loadavg()[0]?.toFixed(2)} at the start`,
  ];
}
