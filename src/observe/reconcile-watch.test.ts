import { describe, expect, it } from "vitest";
import { systemClock } from "../sync/clock.ts";
import { Metrics } from "./metrics.ts";
import { runChecks } from "./probes.ts";
import { ReconcileWatch } from "./reconcile-watch.ts";

describe("the watch over the reconciler", () => {
  it("reports one that hangs; begin, steps and end of a pass are progress, also when the pass fails", async () => {
    let now = 5_000;
    const watch = new ReconcileWatch(new Metrics(), { ...systemClock, monotonic: () => now });
    const probe = () => runChecks([watch.check(90_000)], AbortSignal.timeout(20_000));
    now += 90_000;
    expect(await probe()).toEqual({ ok: true, text: "ok\nreconciler: ok\n" });
    now += 1_000;
    expect(await probe()).toEqual({
      ok: false,
      text: "not ok\nreconciler: NOT OK, no progress for 91 s, 90 s are allowed\n",
    });
    let passed = () => {};
    const signs = [
      () => {
        passed = watch.passBegan();
      },
      () => watch.progress(),
      () => {
        watch.stageFailed(new Error("the switch is away"));
        passed();
      },
    ];
    for (const sign of signs) {
      now += 91_000;
      expect(await probe()).toMatchObject({ ok: false });
      sign();
      expect(await probe()).toMatchObject({ ok: true });
    }
  });
});
