import { pino } from "pino";
import { describe, expect, it } from "vitest";
import { silentLogger } from "../../../logging/logger.ts";
import type { OpenflowClient, OpenflowConnection } from "../../../protocols/openflow/connection.ts";
import type { Clock } from "../../../sync/clock.ts";
import { watchBridge } from "./watch-bridge.ts";

/** A client whose connections are made and lost by hand; it represents a bridge that comes and goes. */
function bridge() {
  const attempts: PromiseWithResolvers<OpenflowConnection>[] = [];
  const client: OpenflowClient = {
    connection: () => {
      const attempt = Promise.withResolvers<OpenflowConnection>();
      attempts.push(attempt);
      return attempt.promise;
    },
    close: () => undefined,
  };
  const connect = () => {
    const lost = new AbortController();
    const connection = { lost: lost.signal } as OpenflowConnection;
    attempts.at(-1)?.resolve(connection);
    return { connection, lose: () => lost.abort(new Error("gone")) };
  };
  return { client, attempts, connect, refuse: () => attempts.at(-1)?.reject(new Error("refused")) };
}

describe("the watch of a bridge", () => {
  it("reports each connection, once each loss, and slows down when the switch stays unreachable", async () => {
    const { client, attempts, connect, refuse } = bridge();
    const calls: unknown[] = [];
    const naps: number[] = [];
    const clock: Clock = { now: () => 0, monotonic: () => 0, sleep: async (ms) => void naps.push(ms) };
    const end = new AbortController();
    const settle = () => new Promise((resolve) => setImmediate(resolve));
    const watching = watchBridge({
      client,
      clock,
      signal: end.signal,
      onConnected: async (connection) => calls.push(connection) > 0,
      logger: pino({}, { write: (line) => void calls.push(JSON.parse(line).reason) }),
    });
    const first = connect();
    await settle();
    expect(calls).toEqual([first.connection]);
    first.lose();
    await settle();
    for (let attempt = 0; attempt < 1002; attempt += 1) {
      refuse();
      await settle();
    }
    expect(calls).toEqual([first.connection, "gone"]);
    expect([naps[0], naps.at(-1)]).toEqual([10, 500]);
    const second = connect();
    await settle();
    expect(calls.at(-1)).toBe(second.connection);
    end.abort();
    await watching;
    expect(attempts).toHaveLength(1004);
  });

  it("retries a connection that it could not serve, with pauses, until it can", async () => {
    const { client, connect } = bridge();
    const naps: number[] = [];
    const clock: Clock = { now: () => 0, monotonic: () => 0, sleep: async (ms) => void naps.push(ms) };
    const end = new AbortController();
    const answers = [false, false, true];
    const served = Promise.withResolvers<void>();
    const watching = watchBridge({
      client,
      clock,
      signal: end.signal,
      onConnected: async () => {
        const answer = answers.shift() ?? true;
        if (answers.length === 0) served.resolve();
        return answer;
      },
      logger: silentLogger,
    });
    connect();
    await served.promise;
    end.abort();
    await watching;
    expect(naps.slice(0, 2)).toEqual([2000, 2000]);
  });

  it("ends while it waits for a connection", async () => {
    const { client, refuse } = bridge();
    const end = new AbortController();
    const clock: Clock = { now: () => 0, monotonic: () => 0, sleep: async () => undefined };
    const calls: unknown[] = [];
    const logger = pino({}, { write: (line) => void calls.push(line) });
    const watching = watchBridge({
      client,
      clock,
      signal: end.signal,
      onConnected: async () => true,
      logger,
    });
    end.abort();
    refuse();
    await watching;
    expect(calls).toEqual([]);
  });
});
