import { describe, expect, it } from "vitest";
import { wrongWithEvent } from "../../../test/stand-in/api-server/check-event.ts";
import { microTime } from "../../kube-api/micro-time.ts";
import { eventName, eventObject, isNamed, type NodeEvent, namespaceOf } from "./event.ts";

const pod: NodeEvent = {
  regarding: { kind: "Pod", namespace: "tenant", name: "vm", uid: "u-1" },
  ...{ reason: "InterfaceAttached", action: "Attach", note: "net1 is attached" },
};
const made = {
  name: "vm.0123456789abcdef",
  at: 1_700_000_000_123,
  program: "daemon",
  instance: "kube-vhostuser-x7k2p",
} as const;

describe("an event", () => {
  it("about a pod is what events.k8s.io/v1 requires", () => {
    const object = eventObject(pod, made);
    expect(object).toEqual({
      apiVersion: "events.k8s.io/v1",
      kind: "Event",
      metadata: { name: "vm.0123456789abcdef", namespace: "tenant" },
      eventTime: "2023-11-14T22:13:20.123000Z",
      reportingController: "kube-vhostuser.io/daemon",
      reportingInstance: "kube-vhostuser-x7k2p",
      action: "Attach",
      reason: "InterfaceAttached",
      type: "Normal",
      note: "net1 is attached",
      regarding: { apiVersion: "v1", kind: "Pod", name: "vm", namespace: "tenant", uid: "u-1" },
    });
    expect(wrongWithEvent({ ...object }, "tenant")).toEqual([]);
  });

  it("about a node is in the default namespace, with the uid that kubectl describe searches for", () => {
    const regarding = { kind: "Node", name: "worker-1.example" } as const;
    const object = eventObject({ ...pod, regarding }, made);
    expect(namespaceOf(regarding)).toBe("default");
    expect(object).toMatchObject({
      regarding: { apiVersion: "v1", kind: "Node", name: "worker-1.example", uid: "worker-1.example" },
    });
    expect(wrongWithEvent({ ...object }, "default")).toEqual([]);
  });

  it("about a pool of addresses names the pool's kind, and the program that posts it", () => {
    const regarding = { kind: "AddressPool", name: "blue-v4", uid: "u-2" } as const;
    const event = { ...pod, regarding, reason: "AddressPoolNearlyFull" } as const;
    const object = eventObject(event, { ...made, program: "ipam-controller" });
    expect(object).toMatchObject({
      metadata: { namespace: "default" },
      reportingController: "kube-vhostuser.io/ipam-controller",
      regarding: { apiVersion: "ipam.kube-vhostuser.io/v1alpha1", kind: "AddressPool", uid: "u-2" },
    });
    expect(wrongWithEvent({ ...object }, "default")).toEqual([]);
  });

  it("has no uid where the runtime did not pass one, and may have a series", () => {
    const regarding = { ...pod.regarding, uid: "" } as const;
    const series = { count: 3, lastObservedTime: microTime(made.at) };
    const object = eventObject({ ...pod, regarding }, { ...made, series });
    expect(object).not.toHaveProperty("regarding.uid");
    expect(object).toHaveProperty("series", series);
    expect(wrongWithEvent({ ...object }, "tenant")).toEqual([]);
  });

  it("is cut to the bytes that the API server accepts, never within a character", () => {
    const object = eventObject(
      { ...pod, note: `x${"é".repeat(2_000)}` },
      { ...made, instance: "n".repeat(300) },
    ) as { readonly note: string; readonly reportingInstance: string };
    expect(Buffer.byteLength(object.note)).toBeLessThanOrEqual(1024);
    expect(object.note).toMatch(/^xé+\.\.\.$/);
    expect(wrongWithEvent({ ...object }, "tenant")).toEqual([]);
  });

  it("has a unique name, also where its object's name is as long as names may be", () => {
    const names = Array.from({ length: 100 }, () =>
      eventName({ kind: "Node", name: `${"a".repeat(235)}.${"b".repeat(17)}` }),
    );
    expect(new Set(names).size).toBe(100);
    for (const name of names) {
      expect(wrongWithEvent({ ...eventObject(pod, { ...made, name }) }, "tenant")).toEqual([]);
    }
  });

  it.each([
    ["an empty name", { kind: "Node", name: "" }],
    ["a path", { kind: "Pod", namespace: "tenant", name: "../secrets", uid: "" }],
    ["a namespace with a dot", { kind: "Pod", namespace: "a.b", name: "vm", uid: "" }],
    ["capital letters", { kind: "Pod", namespace: "tenant", name: "VM", uid: "" }],
  ] as const)("is not posted about a name that Kubernetes cannot have: %s", (_, regarding) => {
    expect(isNamed(regarding)).toBe(false);
  });
});
