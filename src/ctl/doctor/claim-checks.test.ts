import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { type ApiRig, startApiRig } from "../../../test/stand-in/api-server/api-rig.ts";
import { checkedHost } from "../../../test/stand-in/doctor/checked-host.ts";
import { exampleClaim } from "../../../test/stand-in/records/example-claim.ts";
import { parseConfig } from "../../config/load.ts";
import { cdiFileName } from "../../dra/cdi.ts";
import { sliceSpecs } from "../../dra/inventory.ts";
import { openRecords } from "../../records/records.ts";
import { claimsCheck } from "./claim-checks.ts";
import { tried } from "./doctor.ts";
import type { CheckedNode } from "./node-check.ts";

let directory: string;
let rig: ApiRig;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "kvu-doctor-"));
  rig = await startApiRig();
  versions("v1.36.3", "containerd://2.2.9");
  publish([{ name: "sockets", attributes: {} }]);
});
afterEach(async () => {
  await rig.close();
  await rm(directory, { recursive: true });
});

/** As kubelet keeps them in its node. */
function versions(kubeletVersion: string, containerRuntimeVersion: string): void {
  const { store } = rig.server;
  if (store.all("nodes").length > 0) store.remove("nodes", "n1", {});
  store.create("nodes", {
    metadata: { name: "n1" },
    status: { nodeInfo: { kubeletVersion, containerRuntimeVersion } },
  });
}

function publish(devices: Parameters<typeof sliceSpecs>[1]): void {
  const [spec] = sliceSpecs("n1", devices, 1);
  const { store } = rig.server;
  if (store.all("resourceslices").length > 0) store.remove("resourceslices", "s", {});
  const metadata = { name: "s" };
  store.create("resourceslices", {
    ...{ apiVersion: "resource.k8s.io/v1", kind: "ResourceSlice" },
    ...{ metadata, spec: { ...spec } },
  });
}

function node(dra: object = {}, claims: object | null = { ports: 4 }): CheckedNode {
  const { server, serviceAccountDirectory } = rig;
  const text = JSON.stringify({
    ...{ node: "n1", recordsDirectory: join(directory, "records") },
    dra: { enabled: true, apiServer: server.url, serviceAccountDirectory, ...dra },
    pools: {
      sockets: { capacity: 4, claims: claims ?? undefined, dataplane: { type: "ovs-dpdk", bridge: "br0" } },
    },
  });
  return { config: parseConfig(text, "test"), switches: [], host: checkedHost(directory) };
}

/** Every finding as `verdict: what`; all that is not well has a cure. */
async function findings(of = node()): Promise<readonly string[]> {
  const found = await tried(() => claimsCheck(of, AbortSignal.timeout(30_000)));
  for (const { verdict, cure } of found)
    if (verdict === "problem" || verdict === "warning") expect(cure).toMatch(/\w{3}/);
  return found.map(({ verdict, what }) => `${verdict}: ${what}`);
}

it("says what a driver works with, or that it is off", async () => {
  expect(await findings()).toEqual([
    "ok: /var/run/cdi: 0 claims",
    `ok: API server ${rig.server.url}, with all rights`,
    "ok: kubelet v1.36.3, containerd://2.2.9",
    "ok: 1 device in 1 ResourceSlice",
  ]);
  expect(await findings(node({ enabled: false }, null))).toEqual(["ok: off"]);
});

it("names the rights that the token lacks", async () => {
  rig.server.verbs.delete("patch");
  rig.server.verbs.delete("watch");
  expect(await findings()).toContain(
    "problem: the token lacks the rights to patch resourceclaims/status, associated-node:patch resourceclaims/driver, watch resourceslices",
  );
});

it("says why the API server cannot be asked, and skips it where there is no token", async () => {
  rig.server.tokens.clear();
  expect(await findings()).toContainEqual(
    expect.stringMatching(/^problem: the Kubernetes API server answered 401/),
  );
  expect(await findings(node({ serviceAccountDirectory: directory }))).toContainEqual(
    expect.stringMatching(
      /^skipped: the API server: .*there is no token.*; run this in the daemon's container$/,
    ),
  );
});

it.each([
  ["v1.31.9", "containerd://2.2.9", "problem: kubelet v1.31.9 cannot call this driver"],
  ["v1.33.1", "containerd://2.2.9", "warning: kubelet v1.33.1 has no ResourceClaims by default"],
  ["v1.34.4+k3s1", "containerd://1.7.34-k3s1", "warning: containerd://1.7.34-k3s1 has CDI off by default"],
  ["v1.34.4", "containerd://1.6.20", "problem: containerd://1.6.20 has no CDI"],
  ["v1.36.3", "cri-o://1.34.1", "ok: kubelet v1.36.3, cri-o://1.34.1"],
])("kubelet %s with %s: %s", async (kubelet, runtime, finding) => {
  versions(kubelet, runtime);
  expect(await findings()).toContain(finding);
});

it("finds slices that are missing, or offer nothing", async () => {
  publish([]);
  expect(await findings()).toContain("problem: no device is offered to claims");
  expect(await findings(node({}, { ports: 0 }))).toContain("warning: no device is offered to claims");
  rig.server.store.remove("resourceslices", "s", {});
  expect(await findings()).toContain("problem: this node has no ResourceSlice of the driver");
});

it("finds a claim without its CDI file, and a directory that runtimes do not read", async () => {
  const cdiDirectory = join(directory, "cdi");
  const unread = `warning: CDI files go to ${cdiDirectory}`;
  const { allocations } = await openRecords(join(directory, "records"));
  const record = { pool: "sockets", sequence: 1, ownership: { owner: 107, group: 107, mode: 0o2770 } };
  const claims = [
    { id: "000aaaaaaaaaaaaa", createdAt: 0, holder: exampleClaim({ uid: "old" }) },
    { id: "000aaaaaaaaaaaab", createdAt: Date.now(), holder: exampleClaim({ uid: "new" }) },
  ];
  for (const one of claims) await allocations.put({ ...record, ...one });
  const file = join(cdiDirectory, cdiFileName("old"));
  expect(await findings(node({ cdiDirectory }))).toEqual(
    expect.arrayContaining([`problem: claim ns/c: ${file} is not there`, unread]),
  );
  await mkdir(cdiDirectory);
  await writeFile(file, "{}");
  expect((await findings(node({ cdiDirectory }))).filter((one) => !one.startsWith("ok"))).toEqual([unread]);
});
