import { once } from "node:events";
import { mkdir, mkdtemp, readdir, readlink, rm, stat } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { hashedPodInterfaceName } from "../names/interface-name.ts";
import { type SharedDirectory, stableSocketPath } from "./stable-link.ts";
import type { VmiInterface } from "./vmi.ts";

const POD_INTERFACE = hashedPodInterfaceName("blue");
const IN_COMPUTE = "/var/run/kubevirt-hooks/hook-sidecar-0/vhostuser";
const NO_CLAIM = undefined as VmiInterface["claim"];

let root: string;
let shared: SharedDirectory;
let all: [SharedDirectory, ...SharedDirectory[]];

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "stable-link-"));
  shared = { here: join(root, "vhostuser"), inCompute: IN_COMPUTE };
  all = [shared];
});
afterEach(() => rm(root, { recursive: true }));

const stable = (
  socketPath: string,
  directories = all,
  { podInterfaceName = POD_INTERFACE, claim = NO_CLAIM } = {},
) => stableSocketPath({ name: "blue", podInterfaceName, claim }, socketPath, directories);

describe("stableSocketPath", () => {
  it.each([
    ["hashed", POD_INTERFACE],
    ["ordinal", "net1"],
  ])("uses a path unchanged whose directory has the %s name of the pod interface", async (_name, name) => {
    const path = `/var/run/vhostuser/sockets/${name}/vhost.sock`;
    expect(await stable(path, all, { podInterfaceName: name })).toBe(path);
    await expect(stat(shared.here)).rejects.toMatchObject({ code: "ENOENT" });
  });

  it("links the directory of any other path under a name that is the same in every pod", async () => {
    for (const podInterfaceName of [POD_INTERFACE, "net1"]) {
      const path = await stable("/var/run/foreign/x1/sock.1", all, { podInterfaceName });
      expect(path).toBe(`${IN_COMPUTE}/${POD_INTERFACE}/sock.1`);
      expect(await readlink(join(shared.here, POD_INTERFACE))).toBe("/var/run/foreign/x1");
    }
  });

  it("gives a path through which a server can bind and others can connect", async () => {
    const foreign = join(root, "foreign");
    await mkdir(foreign);
    const here = { here: shared.here, inCompute: shared.here };
    const server = createServer().listen(await stable(join(foreign, "vhost.sock"), [here]));
    await once(server, "listening");
    expect(await readdir(foreign)).toEqual(["vhost.sock"]);
    server.close();
    await once(server, "close");
  });

  it("replaces the link when the target changes, leaves nothing beside it, and allows many callers", async () => {
    await stable("/old/x/vhost.sock");
    await Promise.all([...Array(20)].map(() => stable("/new/x/vhost.sock")));
    expect(await readlink(join(shared.here, POD_INTERFACE))).toBe("/new/x");
    expect(await readdir(shared.here)).toEqual([POD_INTERFACE]);
  });

  it("refuses a directory in the link's place and leaves it alone", async () => {
    await mkdir(join(shared.here, POD_INTERFACE, "inner"), { recursive: true });
    await expect(stable("/a/x/vhost.sock")).rejects.toMatchObject({
      code: "directory-unsafe",
      where: join(shared.here, POD_INTERFACE),
    });
    expect(await readdir(shared.here)).toEqual([POD_INTERFACE]);
  });

  it("refuses a path that doesn't fit into a socket address, before it makes anything", async () => {
    const long = `/a/${"d".repeat(20)}/${"s".repeat(60)}`;
    await expect(stable(long)).rejects.toMatchObject({ code: "path-too-long" });
    await expect(stat(dirname(join(shared.here, POD_INTERFACE)))).rejects.toMatchObject({ code: "ENOENT" });
  });

  it("uses a path unchanged that the pod's names of claim and request make", async () => {
    const claim = { kind: "claim" as const, claim: "fast-net", request: "port" };
    const path = "/var/run/ovsdpdk/fast-net/port/vhost.sock";
    expect(await stable(path, all, { claim })).toBe(path);
    await expect(stat(shared.here)).rejects.toMatchObject({ code: "ENOENT" });
    const other = "/var/run/ovsdpdk/7f3a/port/vhost.sock";
    expect(await stable(other, all, { claim })).toContain(IN_COMPUTE);
  });

  it("makes the link in every shared directory, for a VM that comes from a pod without the first", async () => {
    const first = { here: join(root, "links"), inCompute: "/var/run/vhostuser-links" };
    const path = await stable("/var/run/foreign/x1/vhost.sock", [first, shared]);
    expect(path).toBe(`/var/run/vhostuser-links/${POD_INTERFACE}/vhost.sock`);
    for (const { here } of [first, shared]) {
      expect(await readlink(join(here, POD_INTERFACE))).toBe("/var/run/foreign/x1");
    }
  });
});
