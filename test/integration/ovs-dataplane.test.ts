import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { Dataplane } from "../../src/dataplane/dataplane.ts";
import type { PortRequest } from "../../src/dataplane/port.ts";
import { listenOnSocket } from "../contract/socket-listener.ts";
import { failureOf, portRequest, soon } from "../contract/switch-under-test.ts";
import { startPod } from "../lab/pod.ts";
import { startTestpmd } from "../lab/testpmd.ts";
import { waitUntil } from "../machine/wait-until.ts";
import { type OvsRig, startOvsRig } from "./ovs-rig.ts";

describe("a port in OVS-DPDK", () => {
  let rig: OvsRig;
  let dataplane: Dataplane;
  const name = "vhu0123456789ab";
  const column = (table: string, record: string, key: string) => rig.ovs.vsctl("get", table, record, key);
  /** Asks for a port, with a deadline that passes as soon as the database has these values. */
  const ensureUntil = async (request: PortRequest, ...written: readonly string[]) => {
    const deadline = new AbortController();
    const failing = failureOf(dataplane.ensurePort(request, deadline.signal));
    await rig.ovs.vsctl("--no-wait", "wait-until", "Interface", name, ...written);
    deadline.abort();
    return failing;
  };

  beforeAll(async () => {
    rig = await startOvsRig();
    dataplane = rig.open();
  });
  afterEach(() => rig.reset());
  afterAll(async () => {
    await dataplane?.close();
    await rig?.close();
  });

  it("carries its owner in external_ids, under the names that OVS documents where it has any", async () => {
    await dataplane.ensurePort(portRequest(rig), soon());
    expect(await column("Interface", name, "external_ids")).toBe(
      '{allocation-id="0123456789abcdef", attached-mac="02:00:00:00:00:01", container-id=c1, ' +
        "interface=pod37a8eec1ce1, network=fast, node=node-a, owner=kube-vhostuser, " +
        "pod-name=virt-launcher-web-x7k2p, pod-namespace=shop, " +
        'pod-uid="0b5c8a52-5a3f-4f0e-9a52-1d0a3bb1c001"}',
    );
    expect(await column("Port", name, "external_ids")).toBe(
      '{allocation-id="0123456789abcdef", interface=pod37a8eec1ce1, node=node-a, owner=kube-vhostuser}',
    );
    expect(await column("Interface", name, "type")).toBe("dpdkvhostuserclient");
    expect(await column("Interface", name, "mtu_request")).toBe("1500");
  });

  it("keeps what other controllers write into external_ids", async () => {
    await dataplane.ensurePort(portRequest(rig), soon());
    await rig.ovs.vsctl("set", "Interface", name, "external_ids:iface-id=ovn-1");
    await rig.ovs.vsctl("set", "Port", name, "external_ids:theirs=yes");
    await dataplane.ensurePort(portRequest(rig, { owner: { podName: "other" } }), soon());
    expect(await column("Interface", name, "external_ids:iface-id")).toBe("ovn-1");
    expect(await column("Interface", name, "external_ids:pod-name")).toBe("other");
    expect(await column("Port", name, "external_ids:theirs")).toBe("yes");
  });

  it("is still ours, and repaired, when another client cleared the marks of its interface", async () => {
    const request = portRequest(rig);
    await dataplane.ensurePort(request, soon());
    await rig.ovs.vsctl("clear", "Interface", name, "external_ids");
    expect((await dataplane.listPorts(soon()))[0]).toMatchObject({
      name,
      owner: { allocationId: request.owner.allocationId, podName: "" },
    });
    expect(await dataplane.checkPort(request, soon())).toHaveLength(1);
    expect((await dataplane.ensurePort(request, soon())).owner).toEqual(request.owner);
  });

  it("is recreated when another client changed its type", async () => {
    const request = portRequest(rig);
    await dataplane.ensurePort(request, soon());
    await rig.ovs.vsctl("set", "Interface", name, "type=internal");
    await dataplane.ensurePort(request, soon());
    expect(await column("Interface", name, "type")).toBe("dpdkvhostuserclient");
    expect(await dataplane.checkPort(request, soon())).toEqual([]);
  });

  it("is not written again while it is in order: every write makes the switch set it up again", async () => {
    await dataplane.ensurePort(portRequest(rig), soon());
    const before = await column("Open_vSwitch", ".", "next_cfg");
    await dataplane.ensurePort(portRequest(rig), soon());
    await dataplane.probe("br-a", soon());
    await dataplane.listPorts(soon());
    expect(await column("Open_vSwitch", ".", "next_cfg")).toBe(before);
  });

  it.each(["ovs-netdev", "gre_sys"])(
    "with the name %s is refused by the switch and taken back",
    async (bad) => {
      const failure = await failureOf(dataplane.ensurePort(portRequest(rig, { name: bad }), soon()));
      expect(failure.code).toBe("port-failed");
      expect(failure.message).toContain("ofport is -1");
      expect(await rig.portNames()).toEqual([]);
      // The switch writes its log in the background.
      const log = () => readFile(rig.ovs.vswitchdLog, "utf8");
      await expect.poll(log).toContain(`interface ${bad}, name is reserved`);
    },
  );

  it.each(["", "sixteen-letters-", "a b", "a/b", "-x"])("cannot be named %j", async (bad) => {
    const failure = await failureOf(dataplane.ensurePort(portRequest(rig, { name: bad }), soon()));
    expect(failure.code).toBe("invalid-request");
  });

  it("is retried, and made, after an earlier failure", async () => {
    const request = portRequest(rig);
    await dataplane.ensurePort(request, soon());
    await rig.ovs.vsctl("--no-wait", "set", "Interface", name, 'error="out of paper"');
    expect((await dataplane.listPorts(soon()))[0]?.error).toBe("out of paper");
    expect(await dataplane.checkPort(request, soon())).toEqual([`port ${name} failed: out of paper`]);
    expect((await dataplane.ensurePort(request, soon())).error).toBeUndefined();
  });

  it("is up and connected while a guest runs its queues", async () => {
    const request = portRequest(rig, { mtu: 2000 });
    await dataplane.ensurePort(request, soon());
    const pod = await startPod(rig.run, "guest");
    const guest = await startTestpmd(pod, {
      socketPath: request.socketPath,
      mac: request.owner.mac,
      mounts: [{ hostPath: rig.socketDirectory, containerPath: rig.socketDirectory }],
    });
    const state = async () => (await dataplane.listPorts(soon()))[0];
    try {
      const isUp = waitUntil(async () => (await state())?.link === "up" && state(), {
        what: "the link is up",
      });
      const up = await Promise.race([isUp, guest.container.died]);
      expect(up).toMatchObject({ link: "up", connected: true, mtu: 2000 });
    } finally {
      await pod.close();
    }
    await waitUntil(async () => (await state())?.connected === false, {
      what: "the guest's end is seen",
    });
    expect(await state()).toMatchObject({ link: "down", connected: false });
  });

  it("is removed again when the switch runs but is too slow", async () => {
    const { vswitchd } = rig.ovs.pids();
    process.kill(vswitchd, "SIGSTOP");
    try {
      const failure = await ensureUntil(portRequest(rig));
      expect(failure.code).toBe("dataplane-timeout");
      expect(failure.message).toContain("runs but does not keep up");
      expect(await rig.portNames()).toEqual([]);
      expect(await dataplane.probe("br-a", AbortSignal.timeout(300))).toMatchObject({ ready: false });
    } finally {
      process.kill(vswitchd, "SIGCONT");
    }
    await dataplane.ensurePort(portRequest(rig), soon());
  });

  it("moves to another socket also in a slow switch, which would miss a quick exchange", async () => {
    const { vswitchd } = rig.ovs.pids();
    const moved = portRequest(rig, { socketPath: join(rig.socketDirectory, "moved.sock") });
    const listener = await listenOnSocket(moved.socketPath);
    try {
      await dataplane.ensurePort(portRequest(rig), soon());
      process.kill(vswitchd, "SIGSTOP");
      const moving = dataplane.ensurePort(moved, soon());
      try {
        await waitUntil(
          async () => (await dataplane.listPorts(soon()))[0]?.socketPath !== portRequest(rig).socketPath,
          {
            what: "the old port is gone from the database",
          },
        );
        for (let look = 0; look < 5; look += 1) expect(await dataplane.listPorts(soon())).toEqual([]);
      } finally {
        process.kill(vswitchd, "SIGCONT");
      }
      await moving;
      await listener.dialled();
    } finally {
      await listener.close();
    }
  });

  it("counts as removed only when a running switch has released it", async () => {
    const { vswitchd } = rig.ovs.pids();
    await dataplane.ensurePort(portRequest(rig), soon());
    process.kill(vswitchd, "SIGSTOP");
    let removed = false;
    const removing = dataplane.removePort(name, soon()).then((was) => {
      removed = true;
      return was;
    });
    try {
      await waitUntil(async () => (await dataplane.listPorts(soon())).length === 0, {
        what: "the database has no port",
      });
      await dataplane.listPorts(soon());
      expect(removed).toBe(false);
    } finally {
      process.kill(vswitchd, "SIGCONT");
    }
    expect(await removing).toBe(true);
  });

  it("that was there before stays when the switch does not answer in time", async () => {
    const { vswitchd } = rig.ovs.pids();
    await dataplane.ensurePort(portRequest(rig), soon());
    process.kill(vswitchd, "SIGSTOP");
    try {
      const changed = portRequest(rig, { mtu: 3000 });
      const failure = await ensureUntil(changed, "mtu_request=3000");
      expect(failure.code).toBe("dataplane-timeout");
      expect(await rig.portNames()).toEqual([name]);
    } finally {
      process.kill(vswitchd, "SIGCONT");
    }
  });

  it("is removed again long before the deadline when the switch is down, and the failure says so", async () => {
    await rig.killSwitch();
    // The database may answer before it has noticed.
    await expect.poll(() => dataplane.probe("br-a", soon())).toMatchObject({ ready: false });
    const failure = await failureOf(dataplane.ensurePort(portRequest(rig), new AbortController().signal));
    expect(failure.code).toBe("dataplane-unavailable");
    expect(failure.message).toContain("ovs-vswitchd is not running");
    expect(await rig.portNames()).toEqual([]);
    expect(await dataplane.probe("br-a", soon())).toEqual({
      ready: false,
      reason: "ovs-vswitchd is not running",
    });
  });

  it("does not keep the lock from a starting switch, however often it is probed", async () => {
    await rig.killSwitch();
    let starting = true;
    const ask = async () => {
      while (starting) await dataplane.probe("br-a", soon());
    };
    const asking = Promise.all([ask(), ask()]);
    try {
      await rig.startSwitch();
    } finally {
      starting = false;
      await asking;
    }
    expect(await dataplane.probe("br-a", soon())).toEqual({ ready: true });
    await dataplane.ensurePort(portRequest(rig), soon());
  });

  it("is refused on a bridge of the kernel's datapath, with the command that repairs it", async () => {
    await rig.ovs.vsctl("--no-wait", "add-br", "br-kernel");
    try {
      const failure = await failureOf(
        dataplane.ensurePort(portRequest(rig, { bridge: "br-kernel" }), soon()),
      );
      expect(failure.code).toBe("dataplane-misconfigured");
      expect(failure.fix).toContain("set Bridge br-kernel datapath_type=netdev");
    } finally {
      await rig.ovs.vsctl("del-br", "br-kernel");
    }
  });

  it("accepts another port whose socket has a longer name", async () => {
    const longer = join(rig.socketDirectory, `${name}.sock2`);
    await rig.makeForeignPort("foreign", longer);
    expect((await dataplane.ensurePort(portRequest(rig), soon())).name).toBe(name);
  });
});
