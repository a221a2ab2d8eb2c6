import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { renderTest } from "../../scripts/build/render-manifests.ts";
import { openManifestCheck } from "../manifests/check-manifest.ts";
import { type Manifest, parseManifests, theOnly } from "../manifests/manifest.ts";
import { FakeApiServer } from "../stand-in/api-server/fake-api-server.ts";

let directory: string;
let api: FakeApiServer;
let manifests: Manifest[];

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "kvu-helm-test-"));
  api = await FakeApiServer.start();
  await writeFile(join(directory, "token"), "first\n");
  await writeFile(join(directory, "ca.crt"), api.ca);
  const vpp = { resource: "vhostuser/vpp", capacity: 1, dataplane: { type: "vpp", bridge: "1" } };
  manifests = parseManifests(await renderTest({ config: { pools: { vpp } } }), "helm");
});
afterEach(async () => {
  await api.close();
  await rm(directory, { recursive: true });
});

/** Runs the container's own command, with its environment, against the API server. */
function runTest() {
  const [{ command, env }] = theOnly(manifests, "Pod")["spec"].containers;
  const { hostname, port } = new URL(api.url);
  const settings = {
    ...Object.fromEntries(env.map(({ name, value }: { name: string; value: string }) => [name, value])),
    ...{ KUBERNETES_SERVICE_HOST: hostname, KUBERNETES_SERVICE_PORT: port, WAIT_SECONDS: "0" },
    ...{ TOKEN_FILE: join(directory, "token"), NODE_EXTRA_CA_CERTS: join(directory, "ca.crt") },
  };
  expect(command[0]).toBe("node");
  return new Promise<{ code: unknown; lines: string[]; stderr: string }>((done) => {
    execFile(process.execPath, command.slice(1), { env: settings }, (error, stdout, stderr) =>
      done({ code: error?.code ?? 0, lines: stdout.trim().split("\n"), stderr }),
    );
  });
}

function selectNodes(desiredNumberScheduled: number): void {
  const metadata = { name: "kube-vhostuser" };
  api.store.create("kube-vhostuser/daemonsets", { metadata, status: { desiredNumberScheduled } });
}

function addNode(name: string, isReady: boolean, allocatable: Readonly<Record<string, string>>): void {
  const labels = {
    "app.kubernetes.io/name": "kube-vhostuser",
    "app.kubernetes.io/instance": "kube-vhostuser",
  };
  api.store.create("kube-vhostuser/pods", {
    metadata: { name: `daemon-${name}`, labels },
    spec: { nodeName: name },
    status: { conditions: [{ type: "Ready", status: isReady ? "True" : "False" }] },
  });
  api.store.create("nodes", { metadata: { name }, status: { allocatable } });
}

const DEVICES = { "vhostuser/sockets": "64", "vhostuser/vpp": "8", cpu: "4" };

describe("helm test", () => {
  it("succeeds when each selected node has a ready daemon and devices of each pool", async () => {
    selectNodes(2);
    addNode("worker-2", true, DEVICES);
    addNode("worker-1", true, DEVICES);
    expect(await runTest()).toEqual({
      code: 0,
      lines: [
        "worker-1: ready, 64 vhostuser/sockets, 8 vhostuser/vpp",
        "worker-2: ready, 64 vhostuser/sockets, 8 vhostuser/vpp",
      ],
      stderr: "",
    });
  });

  it("expects no devices of a pool whose ports are all for claims", async () => {
    const sockets = { capacity: 4, claims: { ports: 4 } };
    manifests = parseManifests(
      await renderTest({ dra: { enabled: true }, config: { pools: { sockets } } }),
      "helm",
    );
    selectNodes(1);
    addNode("worker-1", true, {});
    expect(await runTest()).toMatchObject({ code: 0, lines: ["worker-1: ready"] });
  });

  it("names each node with a problem, and the command that says more", async () => {
    selectNodes(4);
    addNode("worker-1", true, DEVICES);
    addNode("worker-2", true, { ...DEVICES, "vhostuser/vpp": "0" });
    addNode("worker-3", false, DEVICES);
    expect(await runTest()).toEqual({
      code: 1,
      lines: [
        "3 of 4 nodes have a pod: see kubectl -n kube-vhostuser describe daemonset kube-vhostuser",
        "worker-1: ready, 64 vhostuser/sockets, 8 vhostuser/vpp",
        "worker-2: ready, 64 vhostuser/sockets, 0 vhostuser/vpp: see kubectl -n kube-vhostuser exec daemon-worker-2 -- vhostuserctl doctor",
        "worker-3: daemon not ready: see kubectl -n kube-vhostuser describe pod daemon-worker-3",
      ],
      stderr: "",
    });
  });

  it("says which label is missing when no node is selected", async () => {
    selectNodes(0);
    const labels = "kube-vhostuser/switch=ovs-dpdk,kubernetes.io/os=linux";
    expect(await runTest()).toMatchObject({
      code: 1,
      lines: [`no node has the labels ${labels}: label the nodes with a switch`],
    });
  });

  it("ends with the API server's words when that refuses", async () => {
    api.verbs.delete("get");
    const { code, lines } = await runTest();
    expect([code, lines]).toEqual([1, [expect.stringMatching(/^API server: daemonsets.apps is forbidden/)]]);
  });

  it("reads its DaemonSet, pods of its namespace and nodes, and leaves no right behind", async () => {
    const check = openManifestCheck();
    for (const one of manifests) expect(check(one), one.kind).toEqual([]);
    expect(theOnly(manifests, "Role")["rules"]).toEqual([
      { apiGroups: ["apps"], resources: ["daemonsets"], resourceNames: ["kube-vhostuser"], verbs: ["get"] },
      { apiGroups: [""], resources: ["pods"], verbs: ["list"] },
    ]);
    expect(theOnly(manifests, "ClusterRole")["rules"]).toEqual([
      { apiGroups: [""], resources: ["nodes"], verbs: ["get"] },
    ]);
    for (const { kind, metadata } of manifests) {
      expect(metadata.annotations?.["helm.sh/hook"], kind).toBe("test");
      const policy = metadata.annotations?.["helm.sh/hook-delete-policy"];
      expect(policy?.includes("hook-succeeded"), kind).toBe(kind !== "Pod");
    }
  });
});
