import { expect, it, vi } from "vitest";
import { ManualClock } from "../../test/stand-in/manual-clock.ts";
import { Failure } from "../failure/failure.ts";
import { type Logger, silentLogger } from "../logging/logger.ts";
import { orAborted } from "../sync/deadlines.ts";
import { noAnswer, unreachable } from "./session.ts";
import { type Connection, shareConnection } from "./shared-connection.ts";

const peer = {
  path: "/run/peer.sock",
  name: "the peer",
  whenUnreachable: "start it",
  whenSilent: "look at it",
};
const malformed = new Failure({ code: "dataplane-protocol", what: "the peer sent nonsense" });
const gone = unreachable(peer, "the connection was closed");
/** How long a peer has to greet. */
const GREETING_MS = 5_000;
const soon = () => AbortSignal.timeout(30_000);

/** Connections that are lost, one after the other, for these reasons; the last one stays. */
async function live(reasons: readonly Failure[]) {
  const slept: number[] = [];
  const warned: unknown[] = [];
  const lasting = Promise.withResolvers<void>();
  const left = [...reasons];
  const logger: Logger = {
    ...silentLogger,
    warn: (...line: unknown[]) => {
      warned.push(line[0]);
    },
  };
  const shared = shareConnection<Connection>({
    peer,
    logger,
    retryMs: () => 100,
    clock: {
      sleep: (ms) => {
        if (ms === GREETING_MS) return new Promise(() => undefined);
        slept.push(ms);
        return Promise.resolve();
      },
    },
    connect: async () => {
      const why = left.shift();
      if (why === undefined) lasting.resolve();
      const lost = why === undefined ? new AbortController().signal : AbortSignal.abort(why);
      return { lost, close: () => undefined };
    },
  });
  await shared.connection(soon());
  await lasting.promise;
  shared.close();
  return { slept, warned };
}

it("a peer that has gone is tried again at the same pace, without a line in the log", async () => {
  expect(await live([gone, gone, gone])).toEqual({ slept: [100, 100, 100], warned: [] });
});

it("a peer that breaks its protocol is named in the log, and tried less and less often", async () => {
  const reasons = Array.from({ length: 9 }, () => malformed);
  const { slept, warned } = await live([...reasons, gone]);
  expect(slept).toEqual([100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000, 100]);
  expect(warned).toEqual(reasons.map(({ message }) => ({ socket: peer.path, reason: message })));
});

it("a peer that breaks its protocol is not tried again by callers before the pause is over", async () => {
  const pause = Promise.withResolvers<void>();
  let tries = 0;
  const shared = shareConnection<Connection>({
    peer,
    logger: silentLogger,
    clock: { sleep: (ms) => (ms === GREETING_MS ? new Promise(() => undefined) : pause.promise) },
    connect: async () => {
      tries += 1;
      return {
        lost: tries === 1 ? AbortSignal.abort(malformed) : new AbortController().signal,
        close: () => undefined,
      };
    },
  });
  await shared.connection(soon());
  await expect(shared.connection(soon())).rejects.toBe(malformed);
  expect(tries).toBe(1);
  pause.resolve();
  await pause.promise;
  await new Promise((resolve) => setImmediate(resolve));
  expect((await shared.connection(soon())).lost.aborted).toBe(false);
  expect(tries).toBe(2);
  shared.close();
});

it.each([
  ["breaks its protocol in its greeting is tried less and less often", malformed, [100, 200, 400]],
  ["is not there is tried again at the same pace", gone, [100, 100, 100]],
])("a peer that %s", async (_, why, pauses) => {
  const slept: number[] = [];
  const done = Promise.withResolvers<void>();
  const shared = shareConnection<Connection>({
    peer,
    logger: silentLogger,
    retryMs: () => 100,
    clock: {
      sleep: async (ms) => {
        if (ms === GREETING_MS) return new Promise(() => undefined);
        slept.push(ms);
        if (slept.length === pauses.length) done.resolve();
      },
    },
    connect: () => Promise.reject(why),
  });
  await expect(shared.connection(soon())).rejects.toBe(why);
  await done.promise;
  shared.close();
  expect(slept.slice(0, pauses.length)).toEqual(pauses);
});

it("a peer that never greets is dialled again, also where no caller gives up", async () => {
  const clock = new ManualClock();
  let dials = 0;
  const shared = shareConnection<Connection>({
    peer,
    logger: silentLogger,
    clock,
    connect: async (signal) => {
      dials += 1;
      if (dials > 1) return { lost: new AbortController().signal, close: () => undefined };
      return orAborted(new Promise<never>(() => undefined), signal, () => noAnswer(peer, "hello", signal));
    },
  });
  const first = shared.connection(soon());
  first.catch(() => undefined);
  await clock.advance(GREETING_MS);
  await expect(first).rejects.toMatchObject({ code: "dataplane-timeout" });
  expect((await shared.connection(soon())).lost.aborted).toBe(false);
  expect(clock.pending).toEqual([]);
  shared.close();
});

it("a peer is tried again by itself at the pace that is asked for, as long as it is asked for", async () => {
  const slept: number[] = [];
  let isKept = true;
  const shared = shareConnection<Connection>({
    peer,
    logger: silentLogger,
    retryMs: (failures) => (isKept ? (failures > 2 ? 500 : 10) : undefined),
    clock: {
      sleep: async (ms) => {
        if (ms === GREETING_MS) return new Promise(() => undefined);
        slept.push(ms);
        isKept = slept.length < 5;
      },
    },
    connect: async () => {
      throw gone;
    },
  });
  await expect(shared.connection(soon())).rejects.toBe(gone);
  await vi.waitFor(() => expect(slept).toEqual([10, 10, 500, 500, 500]));
  await new Promise((resolve) => setImmediate(resolve));
  expect(slept).toHaveLength(5);
  shared.close();
});
