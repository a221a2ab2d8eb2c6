import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { deriveMacAddress, macSeed } from "./mac-address.ts";

/** As Kubernetes names a pod of KubeVirt's: the name before the five random characters has at most 58. */
const launcherOf = (vm: string, random: string) => `virt-launcher-${vm}-`.slice(0, 58) + random;
const seed = (podName: string, address?: string) => macSeed({ namespace: "ns", podName, address });

describe("what a MAC is derived from", () => {
  it("is the VM where the pod is one of KubeVirt's, whatever the pod's random characters and address", () => {
    expect(seed("virt-launcher-db-0-x7k2p")).toBe("VM ns/db-0");
    expect(seed("virt-launcher-db-0-bbbbb", "net/10.9.0.5/24")).toBe("VM ns/db-0");
    expect(macSeed({ namespace: "other", podName: "virt-launcher-db-0-x7k2p" })).toBe("VM other/db-0");
  });

  it("is the pod of any other program", () => {
    expect(seed("db-0", "net/10.9.0.5/24")).toBe("ns/db-0");
    expect(seed("virt-launcher-bcdfg")).toBe("ns/virt-launcher-bcdfg");
    expect(seed("virt-launcher-x-toolong")).toBe("ns/virt-launcher-x-toolong");
  });

  it("of a VM whose name may be cut, is the address, else the pod: two VMs never share one", () => {
    const [one, other] = [`${"a".repeat(44)}1`, `${"a".repeat(44)}2`].map((vm) => launcherOf(vm, "x7k2p"));
    expect(one).toBe(other);
    const again = launcherOf(`${"a".repeat(44)}1`, "bcdfg");
    expect(seed(one ?? "", "net/10.9.0.5/24")).toBe(seed(again, "net/10.9.0.5/24"));
    expect(seed(one ?? "", "net/10.9.0.5/24")).not.toBe(seed(other ?? "", "net/10.9.0.6/24"));
    expect(seed(one ?? "")).toBe(`ns/${one}`);
    expect(seed(launcherOf("a".repeat(42), "x7k2p"))).toBe(`VM ns/${"a".repeat(42)}`);
    expect(seed(launcherOf("a".repeat(43), "x7k2p"))).toContain("ns/virt-launcher-");
  });

  it("differs between VMs of all names, and is the same for all pods of one whose name is not cut", () => {
    const vm = fc.stringMatching(/^[a-z0-9]([a-z0-9-]{0,60}[a-z0-9])?$/);
    const random = fc.stringMatching(/^[bcdf24]{5}$/);
    fc.assert(
      fc.property(vm, vm, random, random, (one, other, first, second) => {
        const [podOfOne, podOfOther] = [launcherOf(one, first), launcherOf(other, second)];
        fc.pre(podOfOne !== podOfOther);
        if (one === other && one.length <= 42) expect(seed(podOfOne)).toBe(seed(podOfOther));
        if (one !== other) expect(seed(podOfOne)).not.toBe(seed(podOfOther));
      }),
    );
  });

  it("gives a locally administered unicast MAC", () => {
    expect(deriveMacAddress(`${seed("virt-launcher-db-0-x7k2p")}/pod6c270ef2f25`)).toMatch(
      /^[0-9a-f][26ae](:[0-9a-f]{2}){5}$/,
    );
  });
});
