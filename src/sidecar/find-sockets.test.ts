import { describe, expect, it } from "vitest";
import { checkSocketPath, SOCKET_ROOTS } from "./find-sockets.ts";

describe("checkSocketPath", () => {
  it.each([
    "/var/run/vhostuser/sockets/net1/vhost.sock",
    "/var/run/ovsdpdk/net/port/vhost.sock",
    "/run/x/vhost.sock",
    "/var/lib/sockets/a/b.sock",
  ])("accepts %s", (path) => {
    expect(checkSocketPath(path, SOCKET_ROOTS, "a test")).toBe(path);
  });

  it.each([
    ["a relative path", "directory-unsafe", "vhost.sock"],
    ["a path that climbs", "directory-unsafe", "/var/run/../../etc/x"],
    ["a path with a doubled slash", "directory-unsafe", "/var/run//x"],
    ["a control character", "directory-unsafe", "/var/run/a\nb"],
    ["another root", "directory-unsafe", "/etc/vhost.sock"],
    ["a root's name as a prefix", "directory-unsafe", "/var/running/vhost.sock"],
    ["the root itself", "directory-unsafe", "/var/run"],
    ["KubeVirt's own directory", "directory-unsafe", "/var/run/kubevirt-private/virt-serial0"],
    ["KubeVirt's hooks", "directory-unsafe", "/var/run/kubevirt-hooks/x.sock"],
    ["libvirt's socket", "directory-unsafe", "/var/run/libvirt/virtqemud-sock"],
    ["the pod's token", "directory-unsafe", "/var/run/secrets/kubernetes.io/x"],
    ["a path too long", "path-too-long", `/var/run/${"x".repeat(107)}`],
  ])("refuses %s", (_name, code, path) => {
    expect(() => checkSocketPath(path, SOCKET_ROOTS, "a test")).toThrow(expect.objectContaining({ code }));
  });
});
