import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type ListedDevice, PluginClient } from "../../test/stand-in/kubelet/plugin-client.ts";
import { loadService } from "../grpc/load-service.ts";
import { serveUnix, type UnixServer } from "../grpc/unix-server.ts";
import { type DeviceStream, type DeviceStreams, deviceStreams } from "./list-and-watch.ts";
import type { PluginDevice } from "./pool-devices.ts";

let directory: string;
let socketPath: string;
let server: UnixServer;
let devices: readonly PluginDevice[];
let streams: DeviceStreams;
let lost: number;
const clients: PluginClient[] = [];

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "list-"));
  socketPath = join(directory, "plugin.sock");
  devices = [{ id: "a", healthy: true, numaNodes: [0, 1] }];
  lost = 0;
  streams = deviceStreams({ current: () => devices }, () => lost++);
  const { definition } = loadService("kubelet/device-plugin-v1beta1.proto", "v1beta1.DevicePlugin");
  server = await serveUnix({
    socketPath,
    services: [
      { definition, implementation: { ListAndWatch: (stream: DeviceStream) => streams.serve(stream) } },
    ],
  });
});

afterEach(async () => {
  for (const client of clients.splice(0)) client.close();
  await server.close();
  await rm(directory, { recursive: true, force: true });
});

/** Opens a stream and gives what came in on it, as ids. */
async function open(): Promise<{ client: PluginClient; lists: ListedDevice[][]; ended: Promise<unknown> }> {
  const client = await PluginClient.connect(socketPath, 30_000);
  clients.push(client);
  const lists: ListedDevice[][] = [];
  const ended = client.listAndWatch((list) => lists.push([...list]));
  await until(() => lists.length === 1);
  return { client, lists, ended };
}

const until = (condition: () => boolean) => expect.poll(condition).toBe(true);

describe("the device list streams", () => {
  it("begin with the whole list: id, health and NUMA nodes", async () => {
    devices = [...devices, { id: "b", healthy: false, numaNodes: [] }];
    const { lists } = await open();
    expect(lists[0]).toEqual([
      { ID: "a", health: "Healthy", topology: { nodes: [{ ID: 0 }, { ID: 1 }] } },
      { ID: "b", health: "Unhealthy", topology: null },
    ]);
  });

  it("send nothing when nothing changed, and each stream knows what it was sent itself", async () => {
    const first = await open();
    streams.refresh();
    devices = [];
    // Opened after the change, before the streams were refreshed.
    const second = await open();
    streams.refresh();
    await until(() => first.lists.length === 2);
    devices = [{ id: "c", healthy: true, numaNodes: [] }];
    streams.refresh();
    await until(() => first.lists.length === 3 && second.lists.length === 2);
    const ids = (lists: ListedDevice[][]) => lists.map((list) => list.map(({ ID }) => ID));
    expect(ids(first.lists)).toEqual([["a"], [], ["c"]]);
    expect(ids(second.lists)).toEqual([[], ["c"]]);
  });

  it("are lost when the last caller is gone, not before, and are not written to any more", async () => {
    const first = await open();
    const second = await open();
    first.client.close();
    await until(() => streams.open === 1);
    expect(lost).toBe(0);
    second.client.close();
    await until(() => streams.open === 0);
    expect(lost).toBe(1);
    devices = [];
    streams.refresh();
    expect([first.lists.length, second.lists.length]).toEqual([1, 1]);
  });

  it("may be ended from our side, which does not count as lost", async () => {
    const { ended } = await open();
    streams.endAll();
    expect(await ended).toBeUndefined();
    expect([streams.open, lost]).toEqual([0, 0]);
  });

  it("give a reader that was too slow the newest list in the end", async () => {
    const { lists } = await open();
    for (let round = 0; round < 2_000; round++) {
      devices = [{ id: `round-${round}`, healthy: true, numaNodes: [] }];
      streams.refresh();
    }
    await until(() => lists.at(-1)?.[0]?.ID === "round-1999");
    // Without an await in between nothing can have been read: only what the buffers take was sent.
    expect(lists.length).toBeLessThan(1_000);
  });
});
