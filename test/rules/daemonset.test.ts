import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { parseConfig } from "../../src/config/load.ts";
import { NEEDED_CAPABILITIES } from "../../src/daemon/check-capabilities.ts";

const TOP = resolve(import.meta.dirname, "../..");
const read = (file: string) => readFileSync(join(TOP, file), "utf8");
const pod = parse(read("deploy/daemonset.yaml")).spec.template.spec;
const [daemon] = pod.containers;
const [mountRoot] = pod.initContainers;

describe("deploy/daemonset.yaml", () => {
  it("gives the daemon the capabilities that it checks for, and docs/security.md explains each", () => {
    const names = Object.keys(NEEDED_CAPABILITIES);
    expect(daemon.securityContext.capabilities).toEqual({
      drop: ["ALL"],
      add: names.map((name) => name.replace("CAP_", "")),
    });
    const explained = [...read("docs/security.md").matchAll(/^\| `(CAP_\w+)` \|/gm)].map(([, name]) => name);
    expect(explained.sort()).toEqual(names.sort());
  });

  it("gives it nothing of the node's but directories", () => {
    expect([pod.hostNetwork, pod.hostPID, pod.hostIPC]).toEqual([undefined, undefined, undefined]);
    expect(pod.automountServiceAccountToken).toBe(false);
    expect(daemon.securityContext).toMatchObject({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      seccompProfile: { type: "RuntimeDefault" },
    });
    expect(daemon.securityContext.privileged).toBeUndefined();
  });

  it("mounts every directory that the configuration's defaults name", () => {
    const config = parseConfig(read("deploy/config.yaml"), "deploy/config.yaml", "node-1");
    const ofVpp = JSON.stringify({
      pools: [{ name: "v", resource: "vhostuser/v", capacity: 1, dataplane: { type: "vpp", bridge: "1" } }],
    });
    const mounted: string[] = daemon.volumeMounts.map(({ mountPath }: { mountPath: string }) => mountPath);
    const used = [config.root, config.recordsDirectory, config.cniSocket, config.deviceInfoDirectory].concat(
      config.kubelet.devicePlugins,
      config.kubelet.podResources,
      [...config.pools, ...parseConfig(ofVpp, "vpp.yaml", "node-1").pools].map(({ dataplane }) =>
        dataplane.type === "vpp" ? dataplane.apiSocket : dataplane.database,
      ),
    );
    const lacking = used.filter((path) => !mounted.some((top) => path === top || path.startsWith(`${top}/`)));
    expect(lacking).toEqual([]);
  });

  it("carries the root's mount to the node from the privileged step, and from the node to the daemon", () => {
    const propagation = ({ volumeMounts }: { volumeMounts: { name: string; mountPropagation?: string }[] }) =>
      volumeMounts.find(({ name }) => name === "root")?.mountPropagation;
    expect([propagation(mountRoot), propagation(daemon)]).toEqual(["Bidirectional", "HostToContainer"]);
    expect(mountRoot.securityContext.privileged).toBe(true);
  });
});
