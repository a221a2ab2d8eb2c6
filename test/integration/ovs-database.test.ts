import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { type OvsContext, readApplied } from "../../src/dataplane/ovs/database.ts";
import { PortSecurity } from "../../src/dataplane/ovs/security/port-security.ts";
import { silentLogger } from "../../src/logging/logger.ts";
import { connectOvsdb, createOvsdbClient, type OvsdbClient } from "../../src/protocols/ovsdb/connection.ts";
import { isLockHeld } from "../../src/protocols/ovsdb/lock.ts";
import { monitorTables, type RowChange } from "../../src/protocols/ovsdb/monitor.ts";
import { guard, lostRace, type Operation, requireCommitted } from "../../src/protocols/ovsdb/transaction.ts";
import { newRowReference, setValue } from "../../src/protocols/ovsdb/values.ts";
import { failureOf, soon } from "../contract/switch-under-test.ts";
import { type OvsdbServer, startOvsdbServer } from "../lab/ovsdb-server.ts";
import { type LabRun, openLabRun } from "../machine/lab-run.ts";
import { ManualClock } from "../stand-in/manual-clock.ts";

/** Inserts a bridge with its own port, as the schema wants it. */
function addBridge(name: string): Operation[] {
  return [
    { op: "insert", table: "Interface", "uuid-name": "i", row: { name, type: "internal" } },
    { op: "insert", table: "Port", "uuid-name": "p", row: { name, interfaces: newRowReference("i") } },
    { op: "insert", table: "Bridge", "uuid-name": "b", row: { name, ports: newRowReference("p") } },
    {
      op: "mutate",
      table: "Open_vSwitch",
      where: [],
      mutations: [["bridges", "insert", newRowReference("b")]],
    },
  ];
}

/** Holds its transaction until there is a bridge of this name. */
function waitForBridge(name: string): Operation {
  return {
    op: "wait",
    table: "Bridge",
    where: [["name", "==", name]],
    columns: ["name"],
    until: "==",
    rows: [{ name }],
  };
}

describe("a real ovsdb-server", () => {
  let run: LabRun;
  let server: OvsdbServer;
  let client: OvsdbClient;

  beforeAll(async () => {
    run = await openLabRun();
    server = await startOvsdbServer(run, { directory: join(run.directory, "ovs") });
    client = createOvsdbClient({
      path: server.databaseSocket,
      database: "Open_vSwitch",
      logger: silentLogger,
    });
  });
  afterEach(async () => {
    await server.vsctl("clear", "Open_vSwitch", ".", "bridges");
  });
  afterAll(async () => {
    client?.close();
    await run?.close();
  });

  it("commits a transaction, and ovs-vsctl sees it", async () => {
    const operations = addBridge("br-x");
    const results = requireCommitted(operations, await client.transact(operations, soon()));
    expect(results).toHaveLength(4);
    expect(await server.vsctl("list-br")).toBe("br-x");
  });

  it("reports a guard that does not hold as a lost race, and changes nothing", async () => {
    const operations = [
      guard("Bridge", [["name", "==", "br-x"]], ["name"], [{ name: "br-x" }]),
      ...addBridge("br-y"),
    ];
    const outcome = await client.transact(operations, soon());
    expect(outcome).toMatchObject({ committed: false, failedAt: 0, error: "timed out" });
    expect(lostRace(operations, outcome)).toBe(true);
    expect(await server.vsctl("list-br")).toBe("");
  });

  it("reports a duplicate name, which only the commit detects, as a lost race", async () => {
    const operations = addBridge("br-x");
    await client.transact(operations, soon());
    const outcome = await client.transact(operations, soon());
    expect(outcome).toMatchObject({ committed: false, failedAt: 4, error: "constraint violation" });
    expect(lostRace(operations, outcome)).toBe(true);
  });

  it("is quoted in the failure when an operation is wrong", async () => {
    const operations: Operation[] = [
      { op: "update", table: "Open_vSwitch", where: [], row: { no_such_column: 1 } },
    ];
    const outcome = await client.transact(operations, soon());
    expect(lostRace(operations, outcome)).toBe(false);
    const failing = Promise.resolve().then(() => requireCommitted(operations, outcome));
    const failure = await failureOf(failing);
    expect(failure.code).toBe("dataplane-protocol");
    expect(failure.message).toContain("no_such_column");
    expect(failure.message).toContain("update Open_vSwitch, operation 0");
  });

  it("refuses a database that it does not have", async () => {
    const other = createOvsdbClient({ path: server.databaseSocket, database: "Nope", logger: silentLogger });
    try {
      const failure = await failureOf(other.transact([], soon()));
      expect(failure.code).toBe("dataplane-protocol");
      expect(failure.message).toContain("unknown database");
    } finally {
      other.close();
    }
  });

  it("holds a waiting transaction until another client fulfils it", async () => {
    const waiting = client.transact([waitForBridge("br-w")], soon());
    await server.vsctl("add-br", "br-w");
    expect(await waiting).toMatchObject({ committed: true });
  });

  it("continues to serve the connection after a waiting transaction was given up", async () => {
    const giveUp = new AbortController();
    const waiting = failureOf(client.transact([waitForBridge("never")], giveUp.signal));
    await client.transact([], soon()); // the server has read the first one by now
    giveUp.abort();
    expect((await waiting).code).toBe("dataplane-timeout");
    expect(await client.transact([], soon())).toEqual({ committed: true, results: [] });
  });

  it("handles many transactions at once on one connection, and answers each with its own result", async () => {
    const names = Array.from({ length: 50 }, (_, index) => `br-${index}`);
    await Promise.all(names.map((name) => client.transact(addBridge(name), soon())));
    const found = await Promise.all(
      names.map(async (name) => {
        const operations: Operation[] = [
          { op: "select", table: "Bridge", where: [["name", "==", name]], columns: ["name"] },
        ];
        return requireCommitted(operations, await client.transact(operations, soon()))[0]?.rows;
      }),
    );
    expect(found).toEqual(names.map((name) => [{ name }]));
  });

  it("fails running requests when it is killed, and is connected again when it is back", async () => {
    const waiting = failureOf(client.transact([waitForBridge("never")], soon()));
    await client.transact([], soon());
    await server.kill();
    expect((await waiting).code).toBe("dataplane-unavailable");
    expect((await failureOf(client.transact([], soon()))).code).toBe("dataplane-unavailable");
    await server.restart();
    expect(await client.transact([], soon())).toEqual({ committed: true, results: [] });
  });

  it("reports whether a client holds a lock, without taking it", async () => {
    const ask = () => isLockHeld(server.databaseSocket, "some_lock", soon());
    expect(await ask()).toBe(false);
    expect(await Promise.all(Array.from({ length: 8 }, ask))).toEqual(Array(8).fill(false));
    const holder = await connectOvsdb(server.databaseSocket, soon());
    expect(await holder.request("lock", ["some_lock"], soon())).toEqual({ locked: true });
    expect(await ask()).toBe(true);
    holder.close();
    // The server may answer the question before it has noticed.
    await expect.poll(ask).toBe(false);
  });

  it("sends a monitor first the present rows, then changes, until it is cancelled", async () => {
    await server.vsctl("add-br", "br-m");
    const seen: RowChange[][] = [];
    const stop = new AbortController();
    let heard = Promise.withResolvers<void>();
    const columns = { Bridge: ["name", "datapath_type"] };
    const onChanges = (changes: readonly RowChange[]) => {
      seen.push([...changes]);
      heard.resolve();
      heard = Promise.withResolvers<void>();
    };
    const first = heard.promise;
    const { databaseSocket: path } = server;
    const watching = monitorTables({ path, database: "Open_vSwitch", columns, onChanges }, stop.signal);
    await first;
    const second = heard.promise;
    await client.transact(
      [{ op: "update", table: "Bridge", where: [["name", "==", "br-m"]], row: { datapath_type: "netdev" } }],
      soon(),
    );
    await second;
    stop.abort();
    await watching;
    expect(seen.map((changes) => changes.map(({ uuid: _, ...change }) => change))).toEqual([
      [{ table: "Bridge", new: { name: "br-m", datapath_type: "" } }],
      [
        {
          table: "Bridge",
          old: { datapath_type: "" },
          new: { name: "br-m", datapath_type: "netdev" },
        },
      ],
    ]);
  });

  it("ends a monitor with a failure when it stops", async () => {
    const heard = Promise.withResolvers<void>();
    const watching = failureOf(
      monitorTables(
        {
          path: server.databaseSocket,
          database: "Open_vSwitch",
          columns: { Bridge: ["name"] },
          onChanges: () => heard.resolve(),
        },
        new AbortController().signal,
      ),
    );
    await heard.promise;
    await server.kill();
    expect((await watching).code).toBe("dataplane-unavailable");
    await server.restart();
  });

  it("clears an optional column with an empty set", async () => {
    await client.transact(addBridge("br-x"), soon());
    const set = (value: number[]): Operation[] => [
      {
        op: "update",
        table: "Interface",
        where: [["name", "==", "br-x"]],
        row: { mtu_request: setValue(value) },
      },
    ];
    requireCommitted(set([1400]), await client.transact(set([1400]), soon()));
    expect(await server.vsctl("get", "Interface", "br-x", "mtu_request")).toBe("1400");
    requireCommitted(set([]), await client.transact(set([]), soon()));
    expect(await server.vsctl("get", "Interface", "br-x", "mtu_request")).toBe("[]");
  });

  describe("a wait for ovs-vswitchd to apply a change", () => {
    const clock = new ManualClock();
    const openContext = (): OvsContext => ({
      ...{ client, databaseSocket: server.databaseSocket, node: "node-a", logger: silentLogger },
      ...{ security: new PortSecurity(run.directory, silentLogger), clock, isSwitchDown: false },
    });
    const nextCheck = (ms: number) => expect.poll(() => clock.pending).toEqual([ms]);

    it("ends 1.5 s after it began when it does not run, and at once the next time", async () => {
      const context = openContext();
      const failure = failureOf(readApplied(context, 1, [], new AbortController().signal));
      await nextCheck(1_500);
      await clock.advance(1_499);
      expect(clock.pending).toEqual([1]);
      await clock.advance(1);
      expect(await failure).toMatchObject({ code: "dataplane-unavailable", where: server.databaseSocket });
      const next = failureOf(readApplied(context, 1, [], new AbortController().signal));
      await nextCheck(0);
      await clock.advance(0);
      expect((await next).code).toBe("dataplane-unavailable");
    });

    it("goes on as long as it runs, and ends when it no longer does", async () => {
      const { databaseSocket: path } = server;
      const running = await connectOvsdb(path, soon());
      await running.request("lock", ["ovs_vswitchd"], soon());
      const failure = failureOf(readApplied(openContext(), 1, [], new AbortController().signal));
      await nextCheck(1_500);
      await clock.advance(1_500);
      await nextCheck(1_500);
      running.close();
      await expect.poll(() => isLockHeld(path, "ovs_vswitchd", soon())).toBe(false);
      await clock.advance(1_500);
      expect((await failure).code).toBe("dataplane-unavailable");
    });
  });
});
