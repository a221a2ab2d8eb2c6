import { access, readdir } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { Failure } from "../../src/failure/failure.ts";
import { type CniExecutable, compileCniExecutable } from "../stand-in/cni/cni-executable.ts";
import { CniRig, type RigCall } from "../stand-in/cni/cni-rig.ts";
import { checkResult } from "../stand-in/multus/check-result.ts";

/** Where Debian keeps the CNI project's reference plugins; those of Debian 12 speak CNI up to 1.0.0. */
const PLUGINS = "/usr/lib/cni";
const VERSIONS = ["0.3.1", "0.4.0", "1.0.0"];

let executable: CniExecutable;
let rig: CniRig;
let dataDir: string;

beforeAll(async () => {
  await access(join(PLUGINS, "host-local")).catch((cause: unknown) => {
    const fix = "apt-get install --no-install-recommends containernetworking-plugins";
    throw new Failure({ code: "part-missing", what: "the reference IPAM plugins are missing", fix, cause });
  });
  executable = await compileCniExecutable();
});
afterAll(() => executable?.[Symbol.asyncDispose]());
beforeEach(async () => {
  rig = await CniRig.open({ execute: executable.run });
  dataDir = join(rig.top, "host-local");
  await rig.allocate("sockets-00001", "sockets-00002", "sockets-00003");
});
afterEach(() => rig?.close());

const call = (verb: string, keys: object, where: Partial<RigCall> = {}) =>
  rig.call(verb, { ...where, config: keys, env: { CNI_PATH: `/opt/cni/bin:${PLUGINS}`, ...where.env } });

/** Two addresses of each family. */
const hostLocal = (cniVersion: string, keys: object = {}) => ({
  cniVersion,
  ipam: {
    type: "host-local",
    dataDir,
    ranges: [
      [{ subnet: "10.9.0.0/29", rangeStart: "10.9.0.2", rangeEnd: "10.9.0.3", gateway: "10.9.0.1" }],
      [{ subnet: "fd09::/64", rangeStart: "fd09::2", rangeEnd: "fd09::3" }],
    ],
    routes: [{ dst: "0.0.0.0/0" }, { dst: "2001:db8::/32", gw: "fd09::9" }],
  },
  ...keys,
});
/** Addresses that host-local holds. */
const held = async () => {
  const files = await readdir(join(dataDir, "net")).catch(() => []);
  return files.filter((name) => /^(10\.|fd)/.test(name)).sort();
};

describe.each(VERSIONS)("host-local of CNI %s", (version) => {
  it("gives a pod an address of each family, and DEL gives them back", async () => {
    const { exitCode, json } = await call("ADD", hostLocal(version));
    expect(exitCode, JSON.stringify(json)).toBe(0);
    expect(checkResult(json)).toMatchObject({
      ips: [
        { address: "10.9.0.2/29", gateway: "10.9.0.1", interface: 0 },
        { address: "fd09::2/64", interface: 0 },
      ],
      routes: [{ dst: "0.0.0.0/0" }, { dst: "2001:db8::/32", gw: "fd09::9" }],
    });
    expect(await held()).toEqual(["10.9.0.2", "fd09::2"]);
    expect(await call("ADD", hostLocal(version))).toEqual({ exitCode, json });
    if (version !== "0.3.1") {
      expect((await call("CHECK", hostLocal(version, { prevResult: json }))).exitCode).toBe(0);
    }
    expect(await call("DEL", hostLocal(version), { env: { CNI_NETNS: "" } })).toEqual({
      exitCode: 0,
      json: undefined,
    });
    expect(await held()).toEqual([]);
  });
});

describe("host-local", () => {
  it("gives the address that the pod asks for", async () => {
    const runtimeConfig = { ips: ["10.9.0.3/29"] };
    const { json } = await call("ADD", hostLocal("1.0.0", { runtimeConfig, portSecurity: true }));
    expect(json).toMatchObject({ ips: [{ address: "10.9.0.3/29" }, {}] });
    expect(rig.records.ports.list()[0]?.settings.security?.addresses).toEqual(["10.9.0.3", "fd09::2"]);
  });

  it("says that its range is full, in its own words, and nothing of that ADD is left", async () => {
    const where = (index: number) => ({ container: `c${index}`, ifname: `net${index}` });
    const config = (index: number) => hostLocal("1.0.0", { deviceID: `sockets-0000${index}` });
    for (const index of [1, 2]) expect((await call("ADD", config(index), where(index))).exitCode).toBe(0);
    const { exitCode, json } = await call("ADD", config(3), where(3));
    expect(exitCode).toBe(1);
    expect(json?.["msg"]).toMatch(/"host-local": .*no IP addresses available/);
    expect(rig.states()).toHaveLength(2);
    await call("DEL", config(1), where(1));
    expect((await call("ADD", config(3), where(3))).exitCode).toBe(0);
  });

  it("has its addresses back after a crash in ADD and a lost DEL, with the next request of any pod", async () => {
    await call("ADD", hostLocal("1.0.0"));
    for (const record of rig.records.ports.list())
      await rig.records.ports.put({ ...record, state: "attaching" });
    await rig.start();
    await rig.reconcile();
    expect(rig.ports()).toEqual([]);
    expect(await held()).toHaveLength(2);
    await rig.call("DEL", { container: "c2", config: "", env: { CNI_PATH: PLUGINS } });
    expect(await held()).toEqual([]);
    expect(rig.states()).toEqual([]);
  });
});

describe("static", () => {
  it.each(VERSIONS)("of CNI %s gives what the network says, DNS too", async (cniVersion) => {
    const ipam = {
      type: "static",
      addresses: [{ address: "192.0.2.7/24", gateway: "192.0.2.1" }],
      routes: [{ dst: "0.0.0.0/0", gw: "192.0.2.1" }],
      dns: { nameservers: ["192.0.2.53"], domain: "example.org" },
    };
    const { json } = await call("ADD", { cniVersion, ipam });
    expect(checkResult(json)).toMatchObject({
      ips: [{ address: "192.0.2.7/24", interface: 0 }],
      dns: { nameservers: ["192.0.2.53"], domain: "example.org" },
    });
    expect((await call("DEL", { cniVersion, ipam })).exitCode).toBe(0);
  });

  it("is refused by the plugin for a CNI version that it does not speak, with that code", async () => {
    const ipam = { type: "static", addresses: [{ address: "192.0.2.7/24" }] };
    expect((await call("ADD", { cniVersion: "1.1.0", ipam })).json).toMatchObject({ code: 1 });
    expect(rig.states()).toEqual([]);
    // Kubelet repeats a DEL that failed for ever, and keeps the pod for as long.
    expect((await call("DEL", { cniVersion: "1.1.0", ipam })).exitCode).toBe(0);
  });
});
