import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { failureOf } from "../../../test/stand-in/failure-of.ts";
import { Failure } from "../../failure/failure.ts";
import { connectOvsdb, type OvsdbConnection } from "./connection.ts";
import { JsonStream } from "./json-stream.ts";

const soon = () => AbortSignal.timeout(30_000);
const never = new AbortController().signal;

describe("a connection to an OVSDB server", () => {
  let directory: string;
  let path: string;
  let server: Server;
  let peer: Socket;
  let connection: OvsdbConnection;
  const heard: [string, readonly unknown[]][] = [];

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), "ovsdb-"));
    path = join(directory, "db.sock");
    server = createServer();
    await once(server.listen(path), "listening");
    await dial();
  });
  afterEach(async () => {
    connection.close();
    peer.destroy();
    server.close();
    await rm(directory, { recursive: true, force: true });
    heard.length = 0;
  });

  async function dial(): Promise<void> {
    const accepted = once(server, "connection") as Promise<[Socket]>;
    const onNotification = (method: string, params: readonly unknown[]) => {
      heard.push([method, params]);
    };
    connection = await connectOvsdb(path, soon(), onNotification);
    [peer] = await accepted;
    peer.on("error", () => undefined);
  }

  /** The next messages that the peer gets, as many as asked for. */
  async function received(count: number): Promise<Record<string, unknown>[]> {
    const stream = new JsonStream();
    const messages: Record<string, unknown>[] = [];
    while (messages.length < count) {
      const [chunk] = (await once(peer, "data", { signal: soon() })) as [Buffer];
      messages.push(...([...stream.push(chunk)] as Record<string, unknown>[]));
    }
    return messages;
  }

  const say = (...messages: object[]) =>
    peer.write(messages.map((message) => JSON.stringify(message)).join(""));

  it("gives each call its own answer, in whatever order they come", async () => {
    const calls = ["a", "b", "c"].map((method) => connection.request(method, [method], soon()));
    const asked = await received(3);
    say(...asked.toReversed().map(({ id, params }) => ({ id, result: params, error: null })));
    expect(await Promise.all(calls)).toEqual([["a"], ["b"], ["c"]]);
  });

  it("answers echo, refuses other calls, and hands notifications on", async () => {
    say(
      { method: "echo", params: ["still", "there"], id: "echo" },
      { method: "update", params: ["monitor", {}], id: null },
      { method: "shutdown", params: [], id: 7 },
    );
    expect(await received(2)).toEqual([
      { id: "echo", result: ["still", "there"], error: null },
      { id: 7, result: null, error: "unknown method" },
    ]);
    expect(heard).toEqual([["update", ["monitor", {}]]]);
  });

  it("rejects a call that the server refuses, with the server's words", async () => {
    const call = failureOf(connection.request("transact", ["Nope"], soon()));
    const [asked] = await received(1);
    say({ id: asked?.id, result: null, error: { error: "unknown database" } });
    expect(await call).toMatchObject({
      code: "dataplane-protocol",
      message: expect.stringContaining("unknown database"),
    });
  });

  it("rejects all that is under way when the connection ends, also inside an answer", async () => {
    const calls = [1, 2].map(() => failureOf(connection.request("transact", [], soon())));
    await received(2);
    peer.end('{"id":1,"result":[');
    for (const failure of await Promise.all(calls)) expect(failure.code).toBe("dataplane-unavailable");
    expect(connection.lost.aborted).toBe(true);
    expect((await failureOf(connection.request("echo", [], soon()))).code).toBe("dataplane-unavailable");
  });

  it.each(["SSH-2.0-OpenSSH_9.2\r\n", "[1,2,3]", '{"id":1}', `{"x":"${"y".repeat(7 * 1024 * 1024)}"}`])(
    "ends the connection when the peer does not speak the protocol (%#)",
    async (words) => {
      const call = failureOf(connection.request("echo", [], soon()));
      peer.write(words);
      expect((await call).code).toBe("dataplane-protocol");
    },
  );

  it("cancels a transaction that is given up, and ignores its late answer", async () => {
    const giveUp = new AbortController();
    const call = failureOf(connection.request("transact", [], giveUp.signal));
    const [asked] = await received(1);
    giveUp.abort();
    expect((await call).code).toBe("dataplane-timeout");
    expect(await received(1)).toEqual([{ method: "cancel", params: [asked?.id], id: null }]);
    say({ id: asked?.id, result: [], error: null });
    const next = connection.request("list_dbs", [], soon());
    const [again] = await received(1);
    say({ id: again?.id, result: ["Open_vSwitch"], error: null });
    expect(await next).toEqual(["Open_vSwitch"]);
  });

  it("passes on the Failure that a signal carries", async () => {
    const reason = new Failure({ code: "internal", what: "the daemon is stopping" });
    expect(await failureOf(connection.request("echo", [], AbortSignal.abort(reason)))).toBe(reason);
    expect(await failureOf(connectOvsdb(path, AbortSignal.abort(reason)))).toBe(reason);
  });

  it("says where there is no listener", async () => {
    const missing = await failureOf(connectOvsdb(join(directory, "none"), soon()));
    expect(missing).toMatchObject({
      code: "dataplane-unavailable",
      message: expect.stringContaining("ENOENT"),
    });
  });

  it("ends every call with a Failure, whatever the peer says before it hangs up", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(
          fc.oneof(
            fc.uint8Array(),
            fc.json().map((text) => Buffer.from(text)),
          ),
          { maxLength: 5 },
        ),
        async (chunks) => {
          const call = failureOf(connection.request("transact", [], never));
          for (const chunk of chunks) peer.write(chunk);
          peer.end();
          expect(["dataplane-unavailable", "dataplane-protocol"]).toContain((await call).code);
          await dial();
        },
      ),
      { numRuns: 50 },
    );
  });
});
