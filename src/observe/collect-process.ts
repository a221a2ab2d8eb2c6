import { readdirSync } from "node:fs";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { Metrics } from "./metrics.ts";

/** What the process costs, from sources that cost nothing between two scrapes. */
export async function collectProcess(version: string, metrics: Metrics): Promise<void> {
  const before = performance.now();
  await nextTurn();
  metrics.set("nodejs_eventloop_lag_seconds", {}, (performance.now() - before) / 1000);
  const { user, system } = process.cpuUsage();
  metrics.replace("process_cpu_seconds_total", [[{}, (user + system) / 1e6]]);
  metrics.replace("nodejs_eventloop_busy_seconds_total", [
    [{}, performance.eventLoopUtilization().active / 1000],
  ]);
  metrics.set("process_resident_memory_bytes", {}, process.memoryUsage.rss());
  metrics.set("process_start_time_seconds", {}, performance.timeOrigin / 1000);
  metrics.set("process_open_fds", {}, readdirSync("/proc/self/fd").length);
  metrics.set("vhostuser_build_info", { version, node_version: process.versions.node }, 1);
}
