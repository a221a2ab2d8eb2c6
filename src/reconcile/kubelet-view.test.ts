import { describe, expect, it } from "vitest";
import { kubeletView, whyIncomplete } from "./kubelet-view.ts";

const pod = (podName: string) => ({
  podNamespace: "ns",
  podName,
  containers: [{ name: "c", devices: [{ resource: "vhostuser/sockets", ids: ["d1"] }] }],
});
const own = { namespace: "ns", name: "daemon" };

describe("a list of PodResources", () => {
  it("is incomplete without the daemon's own pod in it", () => {
    expect(whyIncomplete(kubeletView([]), own)).toMatch(/own pod ns\/daemon/);
    expect(whyIncomplete(kubeletView([pod("other")]), own)).toMatch(/own pod ns\/daemon/);
    expect(whyIncomplete(kubeletView([pod("daemon")]), own)).toBeUndefined();
  });

  it("that is empty is incomplete where the own pod is not known", () => {
    expect(whyIncomplete(kubeletView([]), undefined)).toMatch(/no pod at all/);
    expect(whyIncomplete(kubeletView([pod("other")]), undefined)).toBeUndefined();
  });

  it("distinguishes the same device id of two resources", () => {
    const view = kubeletView([pod("a")]);
    expect(view.held.has("vhostuser/sockets d1")).toBe(true);
    expect(view.held.has("other/resource d1")).toBe(false);
  });
});
