import { rm } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { CniRig, NETNS } from "../../test/stand-in/cni/cni-rig.ts";
import { IpamPlugin } from "../../test/stand-in/cni/ipam-plugin.ts";
import { NoAnswer } from "../../test/stand-in/cni/shim-client.ts";
import { removeAttachment } from "../attachment/remove-attachment.ts";
import { retryPendingIpamDels } from "../ipam/release-addresses.ts";
import type { PortRecord } from "../records/port-record.ts";

let rig: CniRig;
let ipam: IpamPlugin;
/** A network whose addresses the plugin manages. */
const network = (keys: object = {}) => ({ config: { ipam: { type: ipam.type }, ...keys } });
/** The record of the port that a container has. */
const recordOf = (containerId: string): PortRecord => {
  const record = rig.records.ports.list().find((one) => one.containerId === containerId);
  if (record === undefined) throw new Error(`container ${containerId} has no record`);
  return record;
};
const failuresOf = (containerId: string) => recordOf(containerId).releases[0]?.failedReleases?.count;
const nothingLeft = async () => {
  expect(rig.ports()).toEqual([]);
  expect(rig.states()).toEqual([]);
  expect(await ipam.held()).toEqual([]);
};

beforeEach(async () => {
  rig = await CniRig.open();
  ipam = await IpamPlugin.install({ binDir: rig.binDir, directory: join(rig.top, "ipam") });
  await rig.allocate("sockets-00001", "sockets-00002", "sockets-00003");
});
afterEach(() => rig.close());

describe("ADD with an IPAM plugin", () => {
  it("answers with its addresses, routes and DNS, the addresses on our interface", async () => {
    const { json } = await rig.call("ADD", network());
    expect(json).toMatchObject({
      interfaces: [{ name: "net1", sandbox: NETNS }],
      ips: [{ address: "10.9.0.1/24", gateway: "10.9.0.254", interface: 0 }],
      routes: [{ dst: "0.0.0.0/0", gw: "10.9.0.254" }],
      dns: { nameservers: ["10.9.0.53"] },
    });
    expect(JSON.stringify(json)).not.toContain('"version"');
    expect(rig.states()).toEqual(["c1 net1 attached"]);
  });

  it.each(["0.3.0", "0.3.1", "0.4.0"])(
    "gives each address its version in a result of %s",
    async (cniVersion) => {
      const { json } = await rig.call("ADD", network({ cniVersion }));
      expect(json).toMatchObject({
        cniVersion,
        ips: [{ version: "4", address: "10.9.0.1/24", interface: 0 }],
      });
    },
  );

  it("passes it the whole configuration and the same environment", async () => {
    const runtimeConfig = { ips: ["10.9.0.77/24"] };
    await rig.call("ADD", network({ runtimeConfig, unknown: { a: [1] } }));
    expect(await ipam.lastInput("ADD")).toMatchObject({ name: "net", runtimeConfig, unknown: { a: [1] } });
    expect(await ipam.calls()).toEqual([
      {
        verb: "ADD",
        container: "c1",
        interface: "net1",
        netns: NETNS,
        args: "IgnoreUnknown=1;K8S_POD_NAMESPACE=ns;K8S_POD_NAME=pod;K8S_POD_UID=u-1",
      },
    ]);
  });

  it("merges them behind what plugins before us gave, the network's own DNS first", async () => {
    const prevResult = {
      cniVersion: "1.0.0",
      interfaces: [{ name: "eth9", mac: "02:00:00:00:00:09", sandbox: NETNS }],
      ips: [{ address: "192.0.2.1/24", interface: 0 }],
      routes: null,
      dns: { nameservers: ["192.0.2.53", "10.9.0.53"], domain: "before" },
      "example.org/extra": 1,
    };
    const dns = { search: ["own"], domain: "own" };
    const { json } = await rig.call("ADD", network({ cniVersion: "1.0.0", prevResult, dns }));
    expect(json).toEqual({
      cniVersion: "1.0.0",
      "example.org/extra": 1,
      interfaces: [
        prevResult.interfaces[0],
        { name: "net1", sandbox: NETNS, mac: expect.stringMatching(/^[0-9a-f:]{17}$/) },
      ],
      ips: [
        { address: "192.0.2.1/24", interface: 0 },
        { address: "10.9.0.1/24", gateway: "10.9.0.254", interface: 1 },
      ],
      routes: [{ dst: "0.0.0.0/0", gw: "10.9.0.254" }],
      dns: { nameservers: ["10.9.0.53", "192.0.2.53"], search: ["own"], domain: "own" },
    });
  });

  it("repeated, before and after a restart, answers from the record without another IPAM call", async () => {
    const first = await rig.call("ADD", network());
    expect(await rig.call("ADD", network())).toEqual(first);
    await rig.start();
    expect(await rig.call("ADD", network())).toEqual(first);
    expect(await ipam.verbs()).toEqual(["ADD c1"]);
  });

  it("has port security let the addresses through", async () => {
    await rig.call("ADD", network({ portSecurity: true }));
    expect(rig.records.ports.list()[0]?.settings).toEqual({ security: { addresses: ["10.9.0.1"] } });
  });

  it("has the guest of a VM get them by DHCP, with the network's own DNS, unless network or switch say otherwise", async () => {
    const env = { CNI_ARGS: "K8S_POD_NAMESPACE=ns;K8S_POD_NAME=virt-launcher-db-0-x7k2p" };
    const dhcp = async (config: object = {}) => {
      await rig.call("ADD", { ...network(config), env });
      const given = recordOf("c1").settings.dhcp;
      await rig.call("DEL", { ...network(config), env });
      return given;
    };
    expect(await dhcp({ dns: { search: ["own"] } })).toEqual({
      addresses: [{ address: "10.9.0.1/24", gateway: "10.9.0.254" }],
      routes: [{ dst: "0.0.0.0/0", gw: "10.9.0.254" }],
      dns: { nameservers: ["10.9.0.53"], search: ["own"] },
    });
    expect(await dhcp({ dhcp: false })).toBeUndefined();
    rig.dataplane.capabilities = { ...rig.dataplane.capabilities, answersDhcp: false };
    expect(await dhcp()).toBeUndefined();
    await rig.call("ADD", network());
    expect(recordOf("c1").settings.dhcp, "a pod that is not a VM's").toBeUndefined();
  });

  it("passes its error on with code and words, releases what it may hold, and leaves no port", async () => {
    await ipam.answer("ADD", {
      cniVersion: "1.1.0",
      code: 118,
      msg: "range is full",
      details: "10.9.0.0/24",
    });
    const { exitCode, json } = await rig.call("ADD", network());
    expect(exitCode).toBe(1);
    expect(json).toMatchObject({ code: 118, msg: expect.stringMatching(/stand-in-ipam.*range is full/) });
    expect(json?.["details"]).toContain("10.9.0.0/24");
    expect(await ipam.verbs()).toEqual(["ADD c1", "DEL c1"]);
    await nothingLeft();
  });

  it.each([
    ["no addresses", { cniVersion: "1.1.0", ips: [] }, /ips: must hold an address/],
    ["an empty object", {}, /ips/],
    ["nothing", "", /ips/],
    ["no JSON", "10.9.0.1", /not JSON/],
    [
      "an address without prefix",
      { ips: [{ address: "10.9.0.1" }] },
      /ips\.0\.address: must be an IP address/,
    ],
    ["a wrong family", { ips: [{ address: "10.9.0.1/8", version: "6" }] }, /not of version 6/],
    ["a result of CNI 0.2", { cniVersion: "0.2.0", ip4: { ip: "10.9.0.1/24" } }, /cniVersion/],
    [
      "a route to nowhere",
      { ips: [{ address: "10.9.0.1/8" }], routes: [{ gw: "10.9.0.2" }] },
      /routes\.0\.dst/,
    ],
  ])("refuses %s for a result and releases what it may hold", async (_name, output, says) => {
    await ipam.answer("ADD", output);
    const { json } = await rig.call("ADD", network());
    expect(json).toMatchObject({ code: 112, msg: expect.stringMatching(says) });
    expect((await ipam.verbs()).at(-1)).toBe("DEL c1");
    await nothingLeft();
  });

  it("calls a plugin of another CNI version no further, in ADD or DEL: it holds nothing", async () => {
    for (const verb of ["ADD", "DEL"]) {
      await ipam.answer(verb, { cniVersion: "1.1.0", code: 1, msg: "incompatible CNI versions" });
    }
    expect((await rig.call("ADD", network())).json).toMatchObject({ code: 1 });
    expect(await ipam.verbs()).toEqual(["ADD c1"]);
    await nothingLeft();
    expect((await rig.call("DEL", network())).exitCode).toBe(0);
  });

  it("says which plugin is not installed, and releases nothing", async () => {
    await rm(join(rig.binDir, ipam.type));
    const { json } = await rig.call("ADD", network());
    expect(json).toMatchObject({
      code: 113,
      msg: expect.stringContaining('"stand-in-ipam" is not in CNI_PATH'),
      details: expect.stringContaining(rig.binDir),
    });
    await nothingLeft();
  });

  it.each(["../stand-in-ipam", "/bin/sh", "a/b", "..", "a b", "-x"])(
    "refuses %j as a plugin's name",
    async (type) => {
      const { json } = await rig.call("ADD", { config: { ipam: { type } } });
      expect(json).toMatchObject({
        code: 7,
        msg: expect.stringContaining(`ipam.type: ${JSON.stringify(type)}`),
      });
      expect(await ipam.calls()).toEqual([]);
    },
  );

  it("refuses to be its own IPAM plugin", async () => {
    const { json } = await rig.call("ADD", { config: { ipam: { type: "kube-vhostuser" } } });
    expect(json).toMatchObject({ code: 7, msg: expect.stringContaining("must not be this very plugin") });
  });

  it.each([{}, { type: "" }, null])("with ipam %j leaves addresses to the guest", async (section) => {
    const { exitCode, json } = await rig.call("ADD", { config: { ipam: section } });
    expect(exitCode).toBe(0);
    expect(Object.keys(json ?? {}).sort()).toEqual(["cniVersion", "interfaces"]);
  });

  it("releases the addresses when the switch refuses the port", async () => {
    rig.dataplane.portError = "no more queues";
    const { json } = await rig.call("ADD", network());
    expect(json).toMatchObject({ code: 105, msg: expect.stringContaining("no more queues") });
    expect(await ipam.verbs()).toEqual(["ADD c1", "DEL c1"]);
    await nothingLeft();
  });

  it("of a new sandbox releases the old one's addresses first, whose late DEL harms nothing", async () => {
    await rig.call("ADD", { ...network(), container: "old" });
    await rig.call("ADD", { ...network(), container: "new" });
    expect(await ipam.verbs()).toEqual(["ADD old", "DEL old", "ADD new"]);
    expect((await rig.call("DEL", { ...network(), container: "old" })).exitCode).toBe(0);
    expect(await ipam.held()).toEqual(["new net1"]);
  });
});

describe("the CNI executable dying while the plugin runs", () => {
  it.each(["before", "after"] as const)(
    "in ADD, %s the plugin ran: the next request releases",
    async (when) => {
      const shim = { diesAt: { verb: "ADD", when } };
      await expect(rig.call("ADD", { ...network(), shim })).rejects.toThrow(NoAnswer);
      await expect.poll(() => rig.states()).toEqual(["c1 net1 releasing"]);
      expect(rig.ports()).toEqual([]);
      rig.aheadMs += 3_600_000;
      await rig.call("DEL", { container: "another-sandbox" });
      expect((await ipam.verbs()).at(-1)).toBe("DEL c1");
      await nothingLeft();
    },
  );

  it("in ADD, and ADD again at once: what may be held is released, then requested again", async () => {
    const shim = { diesAt: { verb: "ADD", when: "after" } } as const;
    await expect(rig.call("ADD", { ...network(), shim })).rejects.toThrow(NoAnswer);
    expect((await rig.call("ADD", network())).exitCode).toBe(0);
    expect(await ipam.verbs()).toEqual(["ADD c1", "DEL c1", "ADD c1"]);
    expect(await ipam.held()).toEqual(["c1 net1"]);
  });

  it("in DEL: the port is gone, and a later request releases", async () => {
    await rig.call("ADD", network());
    const shim = { diesAt: { verb: "DEL", when: "before" } } as const;
    await expect(rig.call("DEL", { ...network(), shim })).rejects.toThrow(NoAnswer);
    expect(rig.ports()).toEqual([]);
    await expect.poll(() => rig.states()).toEqual(["c1 net1 releasing"]);
    expect((await rig.call("DEL", network())).exitCode).toBe(0);
    await nothingLeft();
  });
});

describe("DEL with an IPAM plugin", () => {
  it("releases the addresses, any number of times", async () => {
    await rig.call("ADD", network());
    for (let time = 0; time < 3; time++) {
      expect(await rig.call("DEL", { ...network(), env: { CNI_NETNS: "" } })).toEqual({
        exitCode: 0,
        json: undefined,
      });
    }
    await nothingLeft();
  });

  it.each([
    ["none", ""],
    ["a torn one", '{"cniVersion":"1.1.0","name":"net","ipam":{"type":"stand'],
    ["one of another plugin", JSON.stringify({ cniVersion: "1.1.0", name: "net", ipam: { type: "other" } })],
  ])("with %s for a configuration uses that of ADD", async (_name, config) => {
    await rig.call("ADD", network({ marker: 7 }));
    expect((await rig.call("DEL", { config, env: { CNI_ARGS: undefined } })).exitCode).toBe(0);
    expect(await ipam.lastInput("DEL")).toMatchObject({ marker: 7 });
    expect((await ipam.calls()).at(-1)?.args).toContain("K8S_POD_NAME=pod");
    await nothingLeft();
  });

  it("is passed on although nothing is recorded, with a configuration that ADD would refuse", async () => {
    expect((await rig.call("DEL", network({ vlan: "wrong" }))).exitCode).toBe(0);
    expect(await ipam.verbs()).toEqual(["DEL c1"]);
  });

  it("that the plugin fails succeeds, and is retried later", async () => {
    await rig.call("ADD", network());
    await ipam.answer("DEL", { cniVersion: "1.1.0", code: 30, msg: "lock is taken" });
    expect((await rig.call("DEL", network())).exitCode).toBe(0);
    expect(rig.ports()).toEqual([]);
    expect(rig.states()).toEqual(["c1 net1 releasing"]);
    await ipam.answer("DEL", undefined);
    rig.aheadMs += 61_000;
    await rig.call("ADD", { container: "c2" });
    expect(await ipam.held()).toEqual([]);
    expect(rig.states()).toEqual(["c2 net1 attached"]);
  });

  it("repeated after the plugin has failed gives it little time, so that the pod's next DEL has its own", async () => {
    await rig.call("ADD", network());
    await ipam.answer("DEL", { cniVersion: "1.1.0", code: 30, msg: "lock is taken" });
    await rig.call("DEL", network());
    await ipam.hang("DEL");
    rig.haste = 10;
    expect((await rig.call("DEL", network())).exitCode).toBe(0);
    expect(failuresOf("c1")).toBe(2);
  });

  it("that the plugin fails is an error where nothing is recorded that would remember it", async () => {
    await ipam.answer("DEL", { cniVersion: "1.1.0", code: 30, msg: "lock is taken" });
    expect((await rig.call("DEL", network())).json).toMatchObject({ code: 30 });
    await rm(join(rig.binDir, ipam.type));
    expect((await rig.call("DEL", network())).exitCode).toBe(0);
  });

  it("with the switch away releases the addresses at once, and the port goes when it is there again", async () => {
    await rig.call("ADD", network());
    rig.dataplane.dead = true;
    expect((await rig.call("DEL", network())).exitCode).toBe(0);
    expect(await ipam.held()).toEqual([]);
    expect(rig.states()).toEqual(["c1 net1 detaching"]);
    rig.dataplane.dead = false;
    await rig.reconcile();
    await nothingLeft();
  });
});

describe("addresses of an attachment whose DEL never came", () => {
  /** Attaches interfaces and loses their DELs: the reconciler finds that their pod is gone. */
  async function lostDel(
    ...attachments: readonly (readonly [container: string, ifname: string])[]
  ): Promise<void> {
    for (const [container, ifname] of attachments) await rig.call("ADD", { ...network(), container, ifname });
    for (const record of rig.records.ports.list()) {
      await removeAttachment(rig.context.node, record, AbortSignal.timeout(10_000));
    }
    expect(rig.states()).toEqual(attachments.map((names) => `${names.join(" ")} releasing`));
  }

  it("stay in the record over a restart and the reconciler, with the port gone", async () => {
    await lostDel(["c1", "net1"]);
    await rig.start();
    expect(await rig.reconcile()).toEqual([]);
    expect(rig.ports()).toEqual([]);
    expect(rig.states()).toEqual(["c1 net1 releasing"]);
  });

  it("are released after a crash in the middle of ADD", async () => {
    await rig.call("ADD", network());
    await rig.records.ports.put({ ...recordOf("c1"), state: "attaching" });
    await rig.start();
    await rig.reconcile();
    expect(rig.states()).toEqual(["c1 net1 releasing"]);
    expect(rig.ports()).toEqual([]);
    await rig.call("DEL", { container: "c9" });
    await nothingLeft();
  });

  it.each(["VERSION", "STATUS"])("are not retried by %s", async (verb) => {
    await lostDel(["c1", "net1"]);
    rig.aheadMs += 61_000;
    await rig.call(verb);
    expect(await ipam.verbs()).toEqual(["ADD c1"]);
  });

  it("are retried by a request that itself fails, and a failure of theirs is not the request's", async () => {
    await lostDel(["c1", "net1"]);
    rig.aheadMs += 61_000;
    await ipam.answer("DEL", { cniVersion: "1.1.0", code: 30, msg: "lock is taken" });
    expect((await rig.call("ADD", { container: "c2", config: { bridge: "br9" } })).json).toMatchObject({
      code: 104,
    });
    expect(await ipam.verbs()).toEqual(["ADD c1", "DEL c1"]);
    expect((await rig.call("CHECK", { container: "c2" })).json).toMatchObject({ code: 106 });
  });

  it("are not retried by a request that took long itself", async () => {
    await lostDel(["c1", "net1"]);
    rig.aheadMs += 61_000;
    const { promise, resolve } = Promise.withResolvers<void>();
    const asked = rig.dataplane.nextCall();
    rig.dataplane.hang = promise;
    const adding = rig.call("ADD", { container: "c2", ifname: "net2" });
    await asked;
    rig.aheadMs += 25_000;
    rig.dataplane.hang = undefined;
    resolve();
    expect((await adding).exitCode).toBe(0);
    expect(await ipam.verbs()).toEqual(["ADD c1"]);
  });

  it("are retried at growing intervals", async () => {
    await lostDel(["c1", "net1"]);
    await ipam.answer("DEL", { cniVersion: "1.1.0", code: 30, msg: "lock is taken" });
    const tries = async () => {
      await rig.call("DEL", { container: "c9" });
      return (await ipam.verbs()).filter((call) => call === "DEL c1").length;
    };
    expect(await tries()).toBe(1);
    expect(await tries()).toBe(1);
    rig.aheadMs += 61_000;
    expect(await tries()).toBe(2);
    rig.aheadMs += 61_000;
    expect(await tries()).toBe(2);
    rig.aheadMs += 61_000;
    expect(await tries()).toBe(3);
    await rig.start();
    expect(await tries()).toBe(3);
    rig.aheadMs += 3_600_000;
    expect(await tries()).toBe(4);
  });

  it("delay a request only briefly, however long the plugin would take, and only one of many requests", async () => {
    await lostDel(["c1", "net1"], ["c2", "net2"]);
    rig.aheadMs += 61_000;
    await ipam.hang("DEL");
    rig.haste = 10;
    // However long a busy machine takes to start it.
    rig.notBefore = () => expect.poll(() => ipam.verbs()).toContain("DEL c1");
    expect((await rig.call("DEL", { container: "c9" })).exitCode).toBe(0);
    expect((await ipam.verbs()).slice(2)).toEqual(["DEL c1"]);
    expect([failuresOf("c1"), failuresOf("c2")]).toEqual([1, undefined]);
  });

  it("get more time with each failed try, for a plugin that is only slow", async () => {
    await lostDel(["c1", "net1"]);
    await ipam.answer("DEL", { cniVersion: "1.1.0", code: 30, msg: "lock is taken" });
    const limits: (number | undefined)[] = [];
    for (let time = 0; time < 6; time++) {
      rig.aheadMs += 3_600_000;
      await retryPendingIpamDels(
        rig.context,
        async ({ limitMs }) => {
          limits.push(limitMs);
          return { exitCode: 1, stdout: "" };
        },
        rig.context.clock.now(),
      );
    }
    expect(limits).toEqual([3_000, 6_000, 12_000, 24_000, 24_000, 24_000]);
  });

  it("are retried a few at a time", async () => {
    await lostDel(...Array.from({ length: 6 }, (_, index) => [`c${index}`, `net${index}`] as const));
    rig.aheadMs += 61_000;
    // After some seconds no further one would begin.
    rig.stoppedAt = Date.now();
    await rig.call("DEL", { container: "c9" });
    expect(rig.states()).toHaveLength(2);
    await rig.call("DEL", { container: "c9" });
    expect(rig.states()).toHaveLength(0);
    await nothingLeft();
  });
});

describe("addresses of an older sandbox whose port a new one has taken over", () => {
  const refuseDel = { cniVersion: "1.1.0", code: 30, msg: "lock is taken" };

  it("are kept in the port's record until the plugin releases them, over a restart and the new one's DEL", async () => {
    await rig.call("ADD", { ...network(), container: "old" });
    await ipam.answer("DEL", refuseDel);
    expect((await rig.call("ADD", { ...network(), container: "new" })).exitCode).toBe(0);
    expect(await ipam.held()).toEqual(["new net1", "old net1"]);
    await rig.start();
    expect((await rig.call("DEL", { ...network(), container: "new" })).exitCode).toBe(0);
    expect(rig.ports()).toEqual([]);
    expect(rig.states()).toEqual(["new net1 releasing"]);
    await ipam.answer("DEL", undefined);
    rig.aheadMs += 3_600_000;
    await rig.call("DEL", { container: "c9" });
    await nothingLeft();
  });

  it("are released by its own late DEL, which leaves the new one's port and addresses", async () => {
    await rig.call("ADD", { ...network(), container: "old" });
    await ipam.answer("DEL", refuseDel);
    await rig.call("ADD", { ...network(), container: "new" });
    await ipam.answer("DEL", undefined);
    expect((await rig.call("DEL", { config: "", container: "old" })).exitCode).toBe(0);
    expect(await ipam.held()).toEqual(["new net1"]);
    expect(rig.states()).toEqual(["new net1 attached"]);
    expect(recordOf("new").releases).toEqual([]);
    expect(rig.ports()).toEqual(["new net1"]);
  });
});

describe("the other verbs with an IPAM plugin", () => {
  it("CHECK is passed on after ours, and its error back", async () => {
    const { json: prevResult } = await rig.call("ADD", network());
    expect((await rig.call("CHECK", network({ prevResult }))).exitCode).toBe(0);
    expect(await ipam.lastInput("CHECK")).toMatchObject({ prevResult });
    await ipam.answer("CHECK", { cniVersion: "1.1.0", code: 21, msg: "no such allocation" });
    expect((await rig.call("CHECK", network({ prevResult }))).json).toMatchObject({ code: 21 });
  });

  it("STATUS is passed on, and a plugin that is missing is not ready", async () => {
    expect((await rig.call("STATUS", network())).exitCode).toBe(0);
    await ipam.answer("STATUS", { cniVersion: "1.1.0", code: 51, msg: "no lease server" });
    expect((await rig.call("STATUS", network())).json).toMatchObject({ code: 51 });
    await rm(join(rig.binDir, ipam.type));
    expect((await rig.call("STATUS", network())).json).toMatchObject({ code: 50 });
  });

  it("GC releases the addresses of what it removes, is passed on, and reports all that failed", async () => {
    await rig.call("ADD", { ...network(), ifname: "keep" });
    await rig.call("ADD", { ...network({ deviceID: "sockets-00002" }), ifname: "drop" });
    const valid = { "cni.dev/valid-attachments": [{ containerID: "c1", ifname: "keep" }] };
    expect((await rig.call("GC", network(valid))).exitCode).toBe(0);
    expect(await ipam.held()).toEqual(["c1 keep"]);
    expect((await ipam.verbs()).at(-1)).toBe("GC c1");
    await ipam.answer("GC", { cniVersion: "1.1.0", code: 40, msg: "cannot list" });
    await ipam.answer("DEL", { cniVersion: "1.1.0", code: 30, msg: "lock is taken" });
    const { json } = await rig.call("GC", network({ "cni.dev/valid-attachments": [] }));
    expect(json).toMatchObject({ code: 112, msg: expect.stringMatching(/lock is taken.*cannot list/) });
    expect(rig.ports()).toEqual([]);
  });
});
