import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { pluginSocketName } from "../../src/device-plugin/plugin.ts";
import { deviceId } from "../../src/names/device-id.ts";
import { PluginClient } from "../stand-in/kubelet/plugin-client.ts";
import { type BenchNode, SOCKETS } from "./bench-node.ts";
import { timeWork } from "./timed-program.ts";

const DIAL_MS = 5_000;
const FREED_LIMIT_MS = 60_000;
const FREED_POLL_MS = 50;

/** Ids of `count` devices of the bench's pool of `capacity`, from the number `from` on and round again. */
export function deviceIds(count: number, from: number, capacity: number): readonly string[] {
  return Array.from({ length: count }, (_, index) => deviceId("sockets", (from + index) % capacity));
}

/** Where the daemon's plugin serves. */
export const pluginSocket = ({ kubelet }: BenchNode): string =>
  join(kubelet.paths.pluginDirectory, pluginSocketName(SOCKETS));

/** A connection of its own to the plugin's socket, so that kubelet's bookkeeping is not part of the time. */
export async function withPlugin<Result>(
  socket: string,
  work: (plugin: PluginClient) => Promise<Result>,
): Promise<Result> {
  const plugin = await PluginClient.connect(socket, DIAL_MS);
  try {
    await plugin.options(); // kubelet's connection is an old one, too
    return await work(plugin);
  } finally {
    plugin.close();
  }
}

/**
 * One Allocate for each device, `atOnce` of them at a time: the next begin when all of these are answered.
 * @returns milliseconds of each call, from before it is made until its answer is there
 */
export async function allocateInBursts(
  plugin: PluginClient,
  devices: readonly string[],
  atOnce: number,
): Promise<readonly number[]> {
  const times: number[] = [];
  for (let from = 0; from < devices.length; from += atOnce) {
    const burst = devices.slice(from, from + atOnce);
    times.push(...(await Promise.all(burst.map((id) => timeWork(() => plugin.allocate([id]))))));
  }
  return times;
}

/** Allocates so many devices and waits until all are given back. @returns the daemon's CPU for each, ms */
export async function cpuPerDevice(
  node: BenchNode,
  devices: readonly string[],
  atOnce: number,
): Promise<number> {
  const before = await node.daemonCpuSeconds();
  await withPlugin(pluginSocket(node), (plugin) => allocateInBursts(plugin, devices, atOnce));
  await untilFreed(node);
  return (((await node.daemonCpuSeconds()) - before) * 1000) / devices.length;
}

/** Waits until the daemon has given back all allocations; no pod holds them. */
export async function untilFreed(node: BenchNode): Promise<void> {
  const end = performance.now() + FREED_LIMIT_MS;
  for (;;) {
    const left = await node.allocations();
    if (left === 0) return;
    if (performance.now() > end) throw new Error(`${left} allocations are left after ${FREED_LIMIT_MS} ms`);
    await delay(FREED_POLL_MS);
  }
}

/** How many lists ListAndWatch brings beyond its first while some work is done. */
export async function furtherLists(plugin: PluginClient, work: () => Promise<unknown>): Promise<number> {
  let lists = 0;
  const first = Promise.withResolvers<void>();
  const ended = plugin.listAndWatch(() => {
    lists += 1;
    first.resolve();
  });
  // Without its stream it would look as if nothing was sent.
  const broken = ended.then((reason) => {
    throw new Error(`ListAndWatch ended: ${reason ?? "without an error"}`);
  });
  broken.catch(() => undefined); // it ends when the connection is closed at last
  await Promise.race([first.promise, broken]);
  await Promise.race([work(), broken]);
  return lists - 1;
}
