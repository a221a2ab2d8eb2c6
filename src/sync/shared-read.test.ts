import { beforeEach, describe, expect, it } from "vitest";
import { ManualClock } from "../../test/stand-in/manual-clock.ts";
import { SharedRead } from "./shared-read.ts";

let clock: ManualClock;
/** The reads that have begun, in order. */
let reads: PromiseWithResolvers<string>[];

beforeEach(() => {
  clock = new ManualClock();
  reads = [];
});

const shared = (maxAgeMs?: number) =>
  new SharedRead({
    read: () => {
      const begun = Promise.withResolvers<string>();
      reads.push(begun);
      return begun.promise;
    },
    clock,
    ...(maxAgeMs === undefined ? {} : { maxAgeMs }),
  });
const settled = () => new Promise((resolve) => setImmediate(resolve));

describe("a shared read", () => {
  it("is one for callers of the same moment, and one more for all that arrive while it runs", async () => {
    const read = shared();
    const first = [read.get(), read.get()];
    await settled();
    const second = [read.get(), read.get()];
    await settled();
    expect(reads.length).toBe(1);
    reads[0]?.resolve("old");
    expect(await Promise.all(first)).toEqual(["old", "old"]);
    await settled();
    expect(reads.length).toBe(2);
    reads[1]?.resolve("new");
    expect(await Promise.all(second)).toEqual(["new", "new"]);
  });

  it("fails for the callers that shared it, and is repeated for later ones", async () => {
    const read = shared();
    const first = read.get();
    await settled();
    const second = read.get();
    reads[0]?.reject(new Error("no"));
    await expect(first).rejects.toThrow("no");
    await settled();
    reads[1]?.resolve("yes");
    expect(await second).toBe("yes");
  });

  it("ends the wait of a caller whose signal fires, and continues for the others", async () => {
    const read = shared();
    const other = read.get();
    await expect(read.get(AbortSignal.abort(new Error("too late")))).rejects.toThrow("too late");
    reads[0]?.resolve("answer");
    expect(await other).toBe("answer");
  });

  it("is shared while it runs, and no longer, with an age of 0", async () => {
    const read = shared(0);
    const first = read.get();
    await settled();
    const second = read.get();
    reads[0]?.resolve("answer");
    expect(await Promise.all([first, second])).toEqual(["answer", "answer"]);
    void read.get();
    await settled();
    expect(reads.length).toBe(2);
  });

  it.each([
    ["answer", (read: PromiseWithResolvers<string> | undefined) => read?.resolve("answer")],
    ["failure", (read: PromiseWithResolvers<string> | undefined) => read?.reject(new Error("failure"))],
  ])("gives an %s again until it is too old", async (expected, settle) => {
    const read = shared(100);
    const outcome = () => read.get().catch(({ message }) => message);
    expect(read.isFresh).toBe(false);
    const first = outcome();
    expect(read.isFresh).toBe(true);
    await settled();
    settle(reads[0]);
    expect(await first).toBe(expected);
    await clock.advance(99);
    expect(await outcome()).toBe(expected);
    await clock.advance(1);
    expect(read.isFresh).toBe(false);
    void outcome();
    await settled();
    expect(reads.length).toBe(2);
  });
});
