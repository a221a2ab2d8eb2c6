import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type ClaimRequest, readClaimMetadata } from "./dra-metadata.ts";

const DRIVER = "ovsdpdk.k8snetworkplumbingwg.io";
const PATH = "/var/run/ovsdpdk/net/port/vhost.sock";
const REQUEST: ClaimRequest = { kind: "template", claim: "net", request: "port" };

let root: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "kvu-dra-"));
});
afterEach(() => rm(root, { recursive: true }));

const device = (extra: object = {}) => ({
  driver: DRIVER,
  pool: "node-1",
  name: "br0",
  attributes: { "vhost-user-path": { string: PATH } },
  ...extra,
});

function metadata(devices: readonly object[], extra: object = {}): string {
  const object = {
    kind: "DeviceMetadata",
    apiVersion: "metadata.resource.k8s.io/v1alpha1",
    metadata: { name: "claim-x", namespace: "tests", generation: 1 },
    requests: [
      { name: "other", devices: [device({ name: "x" })] },
      { name: "port", devices },
    ],
    ...extra,
  };
  return JSON.stringify(object, null, 2);
}

async function read(text: string | undefined, request = REQUEST, driver = DRIVER) {
  const kind = request.kind === "claim" ? "resourceclaims" : "resourceclaimtemplates";
  const directory = join(root, kind, request.claim, request.request);
  await mkdir(directory, { recursive: true });
  if (text !== undefined) await writeFile(join(directory, `${driver}-metadata.json`), text);
  return readClaimMetadata(request, "blue", root);
}

describe("readClaimMetadata", () => {
  it.each<ClaimRequest["kind"]>(["claim", "template"])(
    "gives the socket of a %s, MTU and MAC",
    async (kind) => {
      const one = device({
        attributes: { [`${DRIVER}/vhost-user-path`]: { string: PATH }, mtu: { int: 9000 } },
        networkData: { interfaceName: "x", hardwareAddress: "02:00:00:00:00:AA" },
      });
      const text = metadata([one]);
      expect(await read(text, { ...REQUEST, kind })).toEqual({
        socketPath: PATH,
        mtu: 9000,
        mac: "02:00:00:00:00:aa",
      });
    },
  );

  it("needs no MTU: the driver publishes it only where the bridge's policy has one", async () => {
    expect(await read(metadata([device()]))).toEqual({ socketPath: PATH, mtu: undefined, mac: undefined });
  });

  it("uses the first version that it knows in a stream of several", async () => {
    const newer = JSON.stringify({ apiVersion: "metadata.resource.k8s.io/v2", shape: "unknown" }, null, 2);
    expect(await read(`${newer}\n${metadata([device()])}\n`)).toMatchObject({ socketPath: PATH });
  });

  it("uses the chosen subrequest", async () => {
    const requests = [{ name: "port/fast", devices: [device()] }];
    expect(await read(metadata([], { requests }))).toMatchObject({ socketPath: PATH });
  });

  it.each<[string, string | undefined, string]>([
    ["no metadata", undefined, "no device metadata"],
    ["an empty file", "", "no object of apiVersion"],
    ["a torn file", metadata([device()]).slice(0, 200), "not JSON"],
    ["a version that is unknown", '{"apiVersion":"metadata.resource.k8s.io/v2"}', "apiVersion"],
    ["no device", metadata([]), "has 0 devices"],
    ["two devices", metadata([device(), device()]), "has 2 devices"],
    ["a device that is no socket", metadata([device({ attributes: {} })]), "vhost-user-path"],
    ["a device without attributes", metadata([device({ attributes: null })]), "vhost-user-path"],
    [
      "an invalid MTU",
      metadata([device({ attributes: { "vhost-user-path": { string: PATH }, mtu: { int: 3 } } })]),
      "mtu 3",
    ],
    ["invalid requests", metadata([], { requests: 4 }), "requests"],
    ["a file too large", " ".repeat(1024 * 1024 + 1), "more than 1048576 bytes"],
  ])("refuses %s", async (_name, text, words) => {
    await expect(read(text)).rejects.toMatchObject({
      code: "invalid-network-info",
      message: expect.stringContaining(words),
    });
  });

  it("refuses the metadata of two drivers", async () => {
    await read(metadata([device()]));
    await expect(read(metadata([device()]), REQUEST, "other.example")).rejects.toThrow("2 files");
  });
});
