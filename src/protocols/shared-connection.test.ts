import { expect, it } from "vitest";
import { Failure } from "../failure/failure.ts";
import { type Logger, silentLogger } from "../logging/logger.ts";
import { unreachable } from "./session.ts";
import { type Connection, shareConnection } from "./shared-connection.ts";

const peer = {
  path: "/run/peer.sock",
  name: "the peer",
  whenUnreachable: "start it",
  whenSilent: "look at it",
};
const malformed = new Failure({ code: "dataplane-protocol", what: "the peer sent nonsense" });
const gone = unreachable(peer, "the connection was closed");
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
    isKept: true,
    clock: {
      sleep: async (ms) => {
        slept.push(ms);
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
    clock: { sleep: () => pause.promise },
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
