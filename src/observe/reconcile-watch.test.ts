import { describe, expect, it } from "vitest";
import { systemClock } from "../sync/clock.ts";
import { Metrics } from "./metrics.ts";
import { ReconcileWatch } from "./reconcile-watch.ts";

describe("the watch over the reconciler", () => {
  it("counts the begin and end of a pass and each step as progress, also when the pass fails", () => {
    let signs = 0;
    const onAlive = () => {
      signs += 1;
    };
    const watch = new ReconcileWatch({ metrics: new Metrics(), clock: systemClock, onAlive });
    expect(signs).toBe(0);
    const passed = watch.passBegan();
    expect(signs).toBe(1);
    watch.progress();
    expect(signs).toBe(2);
    watch.stageFailed(new Error("the switch is away"));
    passed();
    expect(signs).toBe(3);
  });
});
