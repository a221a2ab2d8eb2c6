import { existsSync } from "node:fs";
import { mkdir, readdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { connectVpp } from "../../src/protocols/vpp-api/connection.ts";
import { type Child, startChild } from "../machine/child.ts";
import type { LabRun } from "../machine/lab-run.ts";
import { waitUntil } from "../machine/wait-until.ts";
import { VppStandIn } from "../stand-in/vpp/vpp.ts";

/** A switch that speaks VPP's binary API: VPP itself, or the stand-in. */
export interface VppProcess {
  /** Path of its API socket. */
  readonly apiSocket: string;
  /** Ends it as a crash would, and starts it again without anything. */
  kill(): Promise<void>;
  start(): Promise<void>;
  /** What its clients did that they must not do; a real VPP does not tell. */
  readonly violations: string[];
}

/** The last one answers pings to addresses of VPP itself. */
const PLUGINS = ["vhost_plugin.so", "policer_plugin.so", "ping_plugin.so"];

/**
 * Starts the VPP of `binary` without DPDK, hugepages or root's directories, and gives it an end with the run.
 * @param binary path of VPP's program; its plugins are looked for beside it, as in a build directory or an
 *   installation
 */
export async function startRealVpp(run: LabRun, binary: string, directory: string): Promise<VppProcess> {
  await mkdir(directory, { recursive: true });
  const apiSocket = join(directory, "api.sock");
  const plugins = await pluginDirectory(binary);
  const config = [
    `unix { nodaemon runtime-dir ${directory} cli-listen ${join(directory, "cli.sock")} poll-sleep-usec 1000 }`,
    `socksvr { socket-name ${apiSocket} }`,
    "memory { main-heap-size 128M main-heap-page-size 4K }",
    "buffers { buffers-per-numa 4096 page-size 4K }",
    `statseg { socket-name ${join(directory, "stats.sock")} size 16M page-size 4K }`,
    `plugins { ${plugins === undefined ? "" : `path ${plugins}`} plugin default { disable } ${PLUGINS.map((name) => `plugin ${name} { enable }`).join(" ")} }`,
  ];
  let child: Child | undefined;
  const start = async () => {
    const started = await startChild(run, {
      name: "vpp",
      command: binary,
      args: config,
      fix: "set VPP_BIN to VPP's program",
    });
    child = started;
    await Promise.race([answers(apiSocket), started.died]);
  };
  await start();
  return { apiSocket, start, kill: async () => child?.stop("SIGKILL"), violations: [] };
}

/** Starts the stand-in in this process, and gives it an end with the run. */
export async function startVppStandIn(run: LabRun, directory: string): Promise<VppProcess> {
  await mkdir(directory, { recursive: true });
  const apiSocket = join(directory, "api.sock");
  const standIn = new VppStandIn({ path: apiSocket });
  run.cleanup.defer("stop the stand-in of VPP", () => standIn.kill());
  await standIn.start();
  const { violations } = standIn;
  return { apiSocket, start: () => standIn.start(), kill: () => standIn.kill(), violations };
}

/** Waits until VPP answers on its API socket; the socket file of a killed one stays. */
async function answers(path: string): Promise<void> {
  await waitUntil(() => connects(path), { what: "VPP answers" });
}

async function connects(path: string): Promise<boolean> {
  try {
    (await connectVpp({ path }, AbortSignal.timeout(2000))).close();
    return true;
  } catch {
    return false;
  }
}

async function pluginDirectory(binary: string): Promise<string | undefined> {
  const library = join(dirname(binary), "../lib");
  const names = existsSync(library) ? await readdir(library) : [];
  return ["", ...names].map((name) => join(library, name, "vpp_plugins")).find((path) => existsSync(path));
}
