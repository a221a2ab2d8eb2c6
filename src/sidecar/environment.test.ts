import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { readEnvironment } from "./environment.ts";

let root: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "kvu-env-"));
});
afterEach(() => rm(root, { recursive: true }));

const inContainer = (env: Record<string, string> = {}) =>
  readEnvironment({ VHOSTUSER_LINKS_DIRECTORY: join(root, "not-there"), ...env }, "virt-launcher-router-x");

describe("readEnvironment", () => {
  it("knows the places of KubeVirt 1.6 and later from the container's name", async () => {
    expect(
      await inContainer({ CONTAINER_NAME: "hook-sidecar-1", NETWORK_BINDING_PLUGIN_NAME: "fast" }),
    ).toEqual({
      serves: { kind: "hook-sidecar", socketPath: "/var/run/kubevirt-hooks/hook-sidecar-1-vhostuser.sock" },
      links: [
        {
          here: "/var/run/kubevirt-hooks/vhostuser",
          inCompute: "/var/run/kubevirt-hooks/hook-sidecar-1/vhostuser",
        },
      ],
      binding: "fast",
      networkInfo: { file: "/etc/podinfo/network-info" },
      metadataRoot: "/var/run/kubernetes.io/dra-device-attributes",
      socketRoots: ["/var/run", "/run", "/var/lib"],
    });
  });

  it("uses the pod's host name before, when all sidecars share one directory", async () => {
    const { serves, links } = await inContainer();
    expect(serves).toMatchObject({
      socketPath: "/var/run/kubevirt-hooks/virt-launcher-router-x-vhostuser.sock",
    });
    expect(links[0].inCompute).toBe("/var/run/kubevirt-hooks/vhostuser");
  });

  it("puts the shared emptyDir first where it is mounted, and links in both", async () => {
    const { links } = await inContainer({
      VHOSTUSER_LINKS_DIRECTORY: root,
      CONTAINER_NAME: "hook-sidecar-0",
    });
    expect(links.map(({ inCompute }) => inCompute)).toEqual([
      "/var/run/vhostuser-links",
      "/var/run/kubevirt-hooks/hook-sidecar-0/vhostuser",
    ]);
    await writeFile(join(root, "file"), "");
    expect((await inContainer({ VHOSTUSER_LINKS_DIRECTORY: join(root, "file") })).links).toHaveLength(1);
  });

  it("is a structured plugin's where it is given the socket, with links beside it", async () => {
    const socket = "/var/run/kubevirt-plugin/vhostuser/domain.sock";
    const { serves, links } = await inContainer({ VHOSTUSER_PLUGIN_SOCKET: socket });
    expect(serves).toEqual({ kind: "plugin", socketPath: socket });
    const directory = "/var/run/kubevirt-plugin/vhostuser/vhostuser";
    expect(links).toEqual([{ here: directory, inCompute: directory }]);
  });

  it("looks for the emptyDir where the admission policy mounts it, and for the plugin's socket where it says", async () => {
    const read = (name: string) => readFile(join(import.meta.dirname, "../../deploy/kubevirt", name), "utf8");
    const { links } = await inContainer({ VHOSTUSER_LINKS_DIRECTORY: root });
    expect(await read("shared-links.yaml")).toContain(`mountPath: "${links[0].inCompute}"`);
    const plugin = await read("plugin.yaml");
    const socket = /socketPath: (\S+)/.exec(plugin)?.[1];
    expect(plugin).toMatch(new RegExp(`name: "VHOSTUSER_PLUGIN_SOCKET",\\s+value: "${socket}"`));
  });

  it("accepts other roots of sockets", async () => {
    expect((await inContainer({ VHOSTUSER_SOCKET_ROOTS: "/a:/b" })).socketRoots).toEqual(["/a", "/b"]);
  });
});
