import { describe, expect, it } from "vitest";
import { ManualClock } from "../../test/stand-in/manual-clock.ts";
import { WorkDeadline } from "./work-deadline.ts";

describe("the time that a verb has for its own work", () => {
  it("ends after it was used up", async () => {
    const clock = new ManualClock();
    const { signal } = new WorkDeadline({ ms: 100, clock });
    await clock.advance(99);
    expect(signal.aborted).toBe(false);
    await clock.advance(1);
    expect(signal.reason).toMatchObject({ name: "TimeoutError" });
  });

  it("stands still while a plugin runs, also when the plugin fails", async () => {
    const clock = new ManualClock();
    const deadline = new WorkDeadline({ ms: 100, clock });
    await clock.advance(60);
    expect(
      await deadline.pauseDuring(async () => {
        await clock.advance(1000);
        return 7;
      }),
    ).toBe(7);
    await expect(
      deadline.pauseDuring(async () => {
        await clock.advance(1000);
        throw new Error("it failed");
      }),
    ).rejects.toThrow("it failed");
    expect(deadline.signal.aborted).toBe(false);
    await clock.advance(39);
    expect(deadline.signal.aborted).toBe(false);
    await clock.advance(1);
    expect(deadline.signal.aborted).toBe(true);
  });

  it("is not moved by the node's time being set", async () => {
    const clock = new ManualClock();
    const deadline = new WorkDeadline({ ms: 100, clock });
    for (const stepMs of [-3_600_000, 7_200_000]) {
      clock.step(stepMs);
      await deadline.pauseDuring(async () => undefined);
    }
    await clock.advance(99);
    expect(deadline.signal.aborted).toBe(false);
    await clock.advance(1);
    expect(deadline.signal.aborted).toBe(true);
  });

  it("does not end any more once it is closed", async () => {
    const clock = new ManualClock();
    const deadline = new WorkDeadline({ ms: 100, clock });
    deadline.close();
    await clock.advance(1000);
    expect(deadline.signal.aborted).toBe(false);
  });
});
