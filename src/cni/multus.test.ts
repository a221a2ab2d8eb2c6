import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type CniExecutable, compileCniExecutable } from "../../test/stand-in/cni/cni-executable.ts";
import { CniRig, DEVICE } from "../../test/stand-in/cni/cni-rig.ts";
import { IpamPlugin } from "../../test/stand-in/cni/ipam-plugin.ts";
import { readCalls, writeFakePlugin } from "../../test/stand-in/multus/fake-plugin.ts";
import { StandInMultus } from "../../test/stand-in/multus/multus.ts";
import type { SelectedNetwork } from "../../test/stand-in/multus/network.ts";

// The namespace that the tests run in: it has no interface of this name.
const netns = "/proc/self/ns/net";
const ifname = "kvu-net1";
const sandbox = { pod: { namespace: "ns", name: "pod", uid: "u-1" }, containerId: "c1", netns };

let executable: CniExecutable;
let rig: CniRig;
let ipam: IpamPlugin;

beforeAll(async () => {
  executable = await compileCniExecutable();
});
afterAll(() => executable[Symbol.asyncDispose]());
beforeEach(async () => {
  rig = await CniRig.open();
  ipam = await IpamPlugin.install({ binDir: rig.binDir, directory: join(rig.top, "ipam") });
  await rig.allocate(DEVICE);
});
afterEach(() => rig.close());

/** Multus with the real CNI executable first and the runtime's plugins, IPAM among them, behind it. */
function multus(mode: "thin" | "thick"): StandInMultus {
  const socket = { KUBE_VHOSTUSER_CNI_SOCKET: rig.socketPath };
  return new StandInMultus({
    cniBinDir: executable.binDir,
    podResourcesSocket: join(rig.top, "not-served"),
    deviceInfo: { devicePlugin: join(rig.top, "devinfo/dp"), cni: join(rig.top, "devinfo/cni") },
    cacheDirectory: join(rig.top, "multus"),
    mode,
    runtimeEnv: { PATH: "/usr/bin:/bin", CNI_PATH: `/opt/nowhere:${rig.binDir}`, ...socket },
    ...(mode === "thick" ? { containerEnv: socket } : {}),
  });
}

const plugin = (keys: object = {}) => ({
  type: "kube-vhostuser",
  capabilities: { deviceID: true, mac: true, ips: true, bandwidth: true },
  ipam: { type: ipam.type },
  ...keys,
});
const selected = (config: object, keys: Partial<SelectedNetwork> = {}): SelectedNetwork => ({
  namespace: "ns",
  name: "net",
  interface: ifname,
  deviceID: DEVICE,
  config: { cniVersion: "1.0.0", name: "net", ...config },
  ...keys,
});

describe.each(["thin", "thick"] as const)("under %s Multus, through the real executable", (mode) => {
  it("attaches with addresses, and DEL releases them although the namespace is gone", async () => {
    const keys = { mac: "02:00:00:00:00:42", bandwidth: { ingressRate: 8000, ingressBurst: 800 } };
    const { networkStatus } = await multus(mode).attach({
      ...sandbox,
      networks: [selected(plugin({ vlan: 7 }), keys)],
    });
    expect(networkStatus).toEqual([
      {
        name: "ns/net",
        interface: ifname,
        mac: "02:00:00:00:00:42",
        ips: ["10.9.0.1"],
        gateway: ["10.9.0.254"],
        dns: { nameservers: ["10.9.0.53"] },
      },
    ]);
    expect(rig.records.ports.list()[0]?.settings).toMatchObject({
      vlan: { mode: "access", tag: 7 },
      toGuest: { rate: 8000, burst: 800 },
    });
    await multus(mode).detach({ ...sandbox, netns: "" });
    expect(rig.states()).toEqual([]);
    expect(rig.ports()).toEqual([]);
    expect(await ipam.held()).toEqual([]);
  });

  it("both pods of a VM without a macAddress have one MAC, and with the same addresses the same security", async () => {
    await ipam.answer("ADD", { cniVersion: "1.0.0", ips: [{ address: "10.9.0.7/24" }] });
    const pods = [
      ["virt-launcher-db-0-bcdfg", DEVICE],
      ["virt-launcher-db-0-x7k2p", "sockets-00002"],
    ] as const;
    const statuses = [];
    for (const [name, deviceID] of pods) {
      await rig.allocate(deviceID);
      const { networkStatus } = await multus(mode).attach({
        ...{ pod: { namespace: "ns", name, uid: name }, containerId: name, netns },
        networks: [selected(plugin({ portSecurity: true }), { deviceID })],
      });
      statuses.push(networkStatus);
    }
    expect(statuses[0]).toEqual(statuses[1]);
    expect(statuses[0]).toMatchObject([{ ips: ["10.9.0.7"], mac: expect.stringMatching(/^[0-9a-f:]{17}$/) }]);
    const [source, target] = rig.records.ports.list();
    expect(target?.mac).toBe(source?.mac);
    expect(target?.settings).toEqual(source?.settings);
    expect(target?.settings.security).toEqual({ addresses: ["10.9.0.7"] });
  });

  it("works anywhere in a chain: its result includes what came before, and later plugins get it", async () => {
    const log = join(rig.top, "log");
    const { binDir: directory } = executable;
    const behave = 'if (verb === "ADD" && stdin.prevResult) out = stdin.prevResult;';
    await writeFakePlugin({ directory, type: "first", log });
    await writeFakePlugin({ directory, type: "last", log, behave });
    const plugins = [{ type: "first" }, plugin(), { type: "last" }];
    const { results } = await multus(mode).attach({ ...sandbox, networks: [selected({ plugins })] });
    expect(results[0]?.interfaces).toHaveLength(2);
    expect(results[0]?.ips).toMatchObject([{ address: "10.9.0.1/24", interface: 1 }]);
    const last = (await readCalls(log)).find((call) => call.plugin === "last");
    expect(last?.stdin["prevResult"]).toEqual(results[0]);
    await multus(mode).detach(sandbox);
    expect(rig.states()).toEqual([]);
    expect(await ipam.held()).toEqual([]);
  });

  it("leaves nothing when a later plugin of the chain fails", async () => {
    const directory = executable.binDir;
    const behave =
      'if (verb === "ADD") { out = { cniVersion: stdin.cniVersion, code: 7, msg: "no" }; exit = 1; } else out = "";';
    await writeFakePlugin({ directory, type: "failing", log: join(rig.top, "log"), behave });
    const plugins = [plugin(), { type: "failing" }];
    const attaching = multus(mode).attach({ ...sandbox, networks: [selected({ plugins })] });
    await expect(attaching).rejects.toThrow("no");
    expect(rig.states()).toEqual([]);
    expect(rig.ports()).toEqual([]);
    expect(await ipam.held()).toEqual([]);
  });
});

describe("without Multus", () => {
  it("a direct call with the device in the configuration and no pod in CNI_ARGS attaches", async () => {
    const call = {
      config: { ipam: { type: ipam.type } },
      env: { CNI_ARGS: undefined, CNI_PATH: `:relative:${rig.binDir}` },
    };
    const run = (verb: string) =>
      executable.run({
        socketPath: rig.socketPath,
        env: rig.environment(verb, call),
        stdin: rig.stdin(call),
      });
    expect(await run("ADD")).toMatchObject({ exitCode: 0 });
    expect(rig.states()).toEqual(["c1 net1 attached"]);
    expect(await run("DEL")).toEqual({ exitCode: 0, stdout: "" });
    expect(await ipam.held()).toEqual([]);
  });
});
