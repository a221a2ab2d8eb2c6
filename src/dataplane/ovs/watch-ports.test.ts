import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { systemClock } from "../../clock/clock.ts";
import { JsonStream } from "../../ovsdb/json-stream.ts";
import { OneAtATime } from "../../turns/one-at-a-time.ts";
import { type Disturbed, disturbedPorts, watchPorts } from "./watch-ports.ts";

const marks = (owner = "kube-vhostuser", node = "n1", more: Record<string, string> = {}) => [
  "map",
  Object.entries({ owner, node, ...more }),
];
const change = (table: string, old?: object, row?: object) => ({
  ...{ table, uuid: "u" },
  ...(old === undefined ? {} : { old: old as Record<string, unknown> }),
  ...(row === undefined ? {} : { new: row as Record<string, unknown> }),
});
const port = { name: "vhu1", external_ids: marks() };

describe("ports that a change concerns", () => {
  it.each([
    ["one that is removed", [change("Port", port)], ["vhu1"]],
    ["one that is changed", [change("Interface", { options: ["map", []] }, port)], ["vhu1"]],
    [
      "one of which our mark is taken",
      [change("Port", { external_ids: marks() }, { ...port, external_ids: ["map", []] })],
      ["vhu1"],
    ],
    [
      "one whose limit is changed",
      [change("QoS", { type: "x" }, { external_ids: marks(undefined, undefined, { port: "vhu2" }) })],
      ["vhu2"],
    ],
    ["each once", [change("Port", port), change("Interface", port)], ["vhu1"]],
    ["none that is made: who makes it knows", [change("Port", undefined, port)], []],
    ["none of another node", [change("Port", { ...port, external_ids: marks(undefined, "n2") })], []],
    ["none of somebody else", [change("Port", { name: "eth0", external_ids: ["map", []] })], []],
    ["none with a bridge that goes, for they go with it", [change("Bridge", { name: "br0" })], []],
    ["all with a bridge that comes", [change("Bridge", undefined, { name: "br0" })], "all"],
  ])("are %s", (_name, changes, expected) => {
    expect(disturbedPorts(changes, "n1")).toEqual(expected);
  });
});

describe("a watch over ports", () => {
  let directory: string;
  let server: Server;
  let told: Disturbed[];
  let calls: OneAtATime;
  let watchers: Socket[];
  const stop = new AbortController();

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), "kvu-watch-"));
    told = [];
    watchers = [];
    calls = new OneAtATime();
    server = createServer((socket) => {
      const stream = new JsonStream(100_000);
      socket.on("error", () => undefined);
      socket.on("data", (chunk) => {
        for (const value of stream.push(chunk)) {
          const { id } = value as { id: unknown };
          socket.write(JSON.stringify({ id, result: {}, error: null }));
          watchers.push(socket);
        }
      });
    });
    await new Promise<void>((resolve) => server.listen(join(directory, "db.sock"), resolve));
  });
  afterEach(async () => {
    stop.abort();
    server.close();
    await rm(directory, { recursive: true });
  });

  /** A transaction that changes ports, as the database tells of it. */
  const tell = (...names: readonly string[]) => {
    const rows = names.map((name) => [
      name,
      { old: { tag: 1 }, new: { name, external_ids: marks(), tag: 2 } },
    ]);
    const update = { method: "update", params: ["changes", { Port: Object.fromEntries(rows) }], id: null };
    for (const socket of watchers) socket.write(JSON.stringify(update));
  };

  it("tells of what changed while a call of ours was at the port once that is over, once", async () => {
    const context = { databaseSocket: join(directory, "db.sock"), node: "n1" };
    const watch = {
      whenIdle: (port: string) => calls.whenIdle(port),
      onDisturbed: (ports: Disturbed) => void told.push(ports),
    };
    const watching = watchPorts(context, watch, systemClock, stop.signal);
    await expect.poll(() => watchers.length).toBe(1);
    const call = Promise.withResolvers<void>();
    const running = calls.run({ key: "vhu1", what: "a call" }, () => call.promise);
    tell("vhu1", "vhu2");
    tell("vhu1");
    tell("vhu3");
    await expect.poll(() => told).toEqual([["vhu2"], ["vhu3"]]);
    call.resolve();
    await running;
    await expect.poll(() => told).toEqual([["vhu2"], ["vhu3"], ["vhu1"]]);
    tell("vhu1");
    await expect.poll(() => told).toHaveLength(4);
    stop.abort();
    await watching;
  });
});
