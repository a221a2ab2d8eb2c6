import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type Logger, silentLogger } from "../../../logging/logger.ts";
import { JsonStream } from "../../../protocols/ovsdb/json-stream.ts";
import { type Clock, systemClock } from "../../../sync/clock.ts";
import { KeyedMutex } from "../../../sync/keyed-mutex.ts";
import { PortLinks } from "./port-links.ts";
import { type DisturbedPorts, disturbedPorts, watchDatabase } from "./watch-database.ts";

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
      "one whose mark of ours is removed",
      [change("Port", { external_ids: marks() }, { ...port, external_ids: ["map", []] })],
      ["vhu1"],
    ],
    [
      "one whose limit is changed",
      [change("QoS", { type: "x" }, { external_ids: marks(undefined, undefined, { port: "vhu2" }) })],
      ["vhu2"],
    ],
    ["each once", [change("Port", port), change("Interface", port)], ["vhu1"]],
    ["none whose guest comes", [change("Interface", { link_state: "down", ofport: 1 }, port)], []],
    ["none that is inserted", [change("Port", undefined, port)], []],
    ["none of another node", [change("Port", { ...port, external_ids: marks(undefined, "n2") })], []],
    ["none of another program", [change("Port", { name: "eth0", external_ids: ["map", []] })], []],
    ["none with a bridge that goes, for they go with it", [change("Bridge", { name: "br0" })], []],
    ["all with a bridge that comes", [change("Bridge", undefined, { name: "br0" })], "all"],
  ])("are %s", (_name, changes, expected) => {
    expect(disturbedPorts(changes, "n1")).toEqual(expected);
  });
});

describe("a watch over the database", () => {
  let directory: string;
  let server: Server;
  let reported: DisturbedPorts[];
  let calls: KeyedMutex;
  let watchers: Socket[];
  let stop: AbortController;
  /** What the database answers the next calls that begin a watch; default that it begins. */
  let refusals: object[];

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), "kvu-watch-"));
    reported = [];
    watchers = [];
    refusals = [];
    stop = new AbortController();
    calls = new KeyedMutex();
    server = createServer((socket) => {
      const stream = new JsonStream();
      socket.on("error", () => undefined);
      socket.on("data", (chunk) => {
        for (const value of stream.push(chunk)) {
          const { id } = value as { id: unknown };
          const error = refusals.shift() ?? null;
          socket.write(JSON.stringify({ id, result: {}, error }));
          if (error === null) watchers.push(socket);
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

  /** A transaction that changes ports, as the database reports it. */
  const send = (...names: readonly string[]) => {
    const rows = names.map((name) => [
      name,
      { old: { tag: 1 }, new: { name, external_ids: marks(), tag: 2 } },
    ]);
    const update = { method: "update", params: ["changes", { Port: Object.fromEntries(rows) }], id: null };
    for (const socket of watchers) socket.write(JSON.stringify(update));
  };

  function watching(clock: Clock, logger: Logger = silentLogger): Promise<void> {
    return watchDatabase(
      { databaseSocket: join(directory, "db.sock"), node: "n1", logger },
      {
        links: new PortLinks("n1"),
        onLink: () => undefined,
        onDisturbed: (ports) => void reported.push(ports),
        whenIdle: (port) => calls.whenIdle(port),
        clock,
        signal: stop.signal,
      },
    );
  }

  it("reports once what changed during our own call for the port, when that is over", async () => {
    const watch = watching(systemClock);
    await expect.poll(() => watchers.length).toBe(1);
    const call = Promise.withResolvers<void>();
    const running = calls.run({ key: "vhu1", what: "a call" }, () => call.promise);
    send("vhu1", "vhu2");
    send("vhu1");
    send("vhu3");
    await expect.poll(() => reported).toEqual([["vhu2"], ["vhu3"]]);
    call.resolve();
    await running;
    await expect.poll(() => reported).toEqual([["vhu2"], ["vhu3"], ["vhu1"]]);
    send("vhu1");
    await expect.poll(() => reported).toHaveLength(4);
    stop.abort();
    await watch;
  });

  it("warns once that the database refuses it, backs off, and starts when it may", async () => {
    const unknownColumn = { error: "syntax error", details: "no column cvlans in table Port" };
    refusals = Array.from({ length: 12 }, () => unknownColumn);
    const lines: string[] = [];
    const pauses: number[] = [];
    const clock: Clock = { now: () => 0, monotonic: () => 0, sleep: async (ms) => void pauses.push(ms) };
    const watch = watching(clock, pino({}, { write: (line) => void lines.push(line) }));
    await expect.poll(() => reported).toEqual(["all"]);
    expect(lines).toHaveLength(1);
    expect(lines[0]).toContain("no column cvlans");
    expect(pauses.slice(0, 3)).toEqual([500, 1_000, 2_000]);
    expect(pauses.slice(8)).toEqual([60_000, 60_000, 60_000, 60_000]);
    // What is lost after that is another matter.
    for (const socket of watchers) socket.destroy();
    await expect.poll(() => reported).toEqual(["all", "all"]);
    expect(pauses[12]).toBe(250);
    stop.abort();
    await watch;
  });
});
