import { describe, expect, it } from "vitest";
import { TokenBucket } from "./token-bucket.ts";

describe("a token bucket", () => {
  it("gives a burst, then one for every share of a second, and never saves up more than a burst", () => {
    let now = 0;
    const bucket = new TokenBucket({ perSecond: 100, burst: 10, now: () => now });
    const taken = (tries: number) =>
      Array.from({ length: tries }, () => bucket.take()).filter(Boolean).length;
    expect(taken(20)).toBe(10);
    now += 30;
    expect(taken(20)).toBe(3);
    now += 60_000;
    expect(taken(20)).toBe(10);
  });
});
