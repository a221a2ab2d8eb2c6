import { describe, expect, it } from "vitest";
import { wrongWithEvent } from "./check-event.ts";

const good = {
  apiVersion: "events.k8s.io/v1",
  kind: "Event",
  metadata: { name: "vm.1", namespace: "tenant" },
  eventTime: "2026-01-02T03:04:05.000006Z",
  ...{ reportingController: "example.com/x", reportingInstance: "x-1", action: "Attach", reason: "Attached" },
  ...{ type: "Normal", note: "", regarding: { kind: "Pod", name: "vm", namespace: "tenant" } },
};

describe("the API server's rules for events", () => {
  it("take what events.k8s.io/v1 describes", () => {
    expect(wrongWithEvent(good, "tenant")).toEqual([]);
  });

  it.each([
    ["a field of core/v1", { count: 1 }, /unknown field count/],
    ["no eventTime", { eventTime: undefined }, /eventTime/],
    ["milliseconds", { eventTime: "2026-01-02T03:04:05.000Z" }, /eventTime/],
    ["another type", { type: "Error" }, /type/],
    ["no action", { action: "" }, /action/],
    ["a reason that is too long", { reason: "x".repeat(129) }, /reason/],
    ["a note that is too long in bytes", { note: "é".repeat(513) }, /note/],
    ["a controller that is no qualified name", { reportingController: "a b" }, /reportingController/],
    [
      "a namespace that is not the object's",
      { regarding: { kind: "Pod", name: "vm", namespace: "b" } },
      /namespace/,
    ],
    ["a node's event outside of default", { regarding: { kind: "Node", name: "n" } }, /namespace/],
    ["a name with capitals", { metadata: { name: "VM", namespace: "tenant" } }, /DNS subdomain/],
    ["a series of one", { series: { count: 1, lastObservedTime: good.eventTime } }, /series.count/],
  ])("refuse %s", (_, change, problem) => {
    expect(wrongWithEvent({ ...good, ...change }, "tenant").join()).toMatch(problem);
  });
});
