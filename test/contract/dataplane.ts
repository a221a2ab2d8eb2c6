import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { Dataplane } from "../../src/dataplane/dataplane.ts";
import type { PortRequest } from "../../src/dataplane/port.ts";
import { Failure } from "../../src/failure/failure.ts";
import { switchAwayContract } from "./dataplane-away.ts";
import { settingsContract } from "./dataplane-settings.ts";
import { listenOnSocket } from "./socket-listener.ts";
import { failureOf, portRequest, type SwitchUnderTest, soon } from "./switch-under-test.ts";

/** What every {@link Dataplane} must do, run against a real switch. */
export function dataplaneContract(title: string, start: () => Promise<SwitchUnderTest>): void {
  describe(`the dataplane contract: ${title}`, () => {
    let rig: SwitchUnderTest;
    let dataplane: Dataplane;

    beforeAll(async () => {
      rig = await start();
      dataplane = rig.open();
    });
    afterEach(() => rig.reset());
    afterAll(async () => {
      await dataplane?.close();
      await rig?.close();
    });

    describe("making a port", () => {
      it("makes a port that the switch dials, and lists it completely", async () => {
        const request = portRequest(rig, { mtu: 9000 });
        const listener = await listenOnSocket(request.socketPath);
        try {
          const { changes, ...state } = await dataplane.ensurePort(request, soon());
          expect(changes).toEqual([expect.stringContaining("does not exist")]);
          const { settings: _, ...made } = request;
          expect(state).toEqual({ ...made, link: "down", connected: false });
          await listener.dialled();
          expect(await dataplane.listPorts(soon())).toEqual([state]);
          expect(await dataplane.checkPort(request, soon())).toEqual([]);
        } finally {
          await listener.close();
        }
      });

      it("may be repeated, which leaves the one port unchanged", async () => {
        const request = portRequest(rig);
        const listener = await listenOnSocket(request.socketPath);
        try {
          const first = await dataplane.ensurePort(request, soon());
          await listener.dialled();
          const { changes, ...again } = await dataplane.ensurePort(request, soon());
          expect([again.name, changes]).toEqual([first.name, undefined]);
          expect(await rig.portNames()).toEqual([request.name]);
          await expect(listener.hungUp(300)).rejects.toThrow("did not hang up");
        } finally {
          await listener.close();
        }
      });

      it("may be called many times at once, for one port and for several", async () => {
        const names = ["vhu-a", "vhu-b", "vhu-c"];
        const requests = names.flatMap((name) => Array(4).fill(portRequest(rig, { name })) as PortRequest[]);
        const second = rig.open();
        try {
          await Promise.all(
            requests.map((request, index) => (index % 2 ? dataplane : second).ensurePort(request, soon())),
          );
        } finally {
          await second.close();
        }
        expect(await rig.portNames()).toEqual(names);
      });

      it("works without an MTU and without a pod uid", async () => {
        const { mtu: _, ...request } = portRequest(rig, { owner: { podUid: "" } });
        const state = await dataplane.ensurePort(request, soon());
        expect(state.owner.podUid).toBe("");
        expect(await dataplane.checkPort(request, soon())).toEqual([]);
      });
    });

    describe("repairing a port of the same allocation and interface", () => {
      it("moves it to another socket, and the switch really dials the new one", async () => {
        const before = portRequest(rig, { socketPath: join(rig.socketDirectory, "before.sock") });
        const after = portRequest(rig, { socketPath: join(rig.socketDirectory, "after.sock") });
        const [old, fresh] = [
          await listenOnSocket(before.socketPath),
          await listenOnSocket(after.socketPath),
        ];
        try {
          await dataplane.ensurePort(before, soon());
          await old.dialled();
          expect(await dataplane.checkPort(after, soon())).not.toEqual([]);
          const state = await dataplane.ensurePort(after, soon());
          expect(state.socketPath).toBe(after.socketPath);
          expect(state.changes).toEqual([expect.stringContaining(after.socketPath)]);
          await fresh.dialled();
          await old.hungUp();
        } finally {
          await old.close();
          await fresh.close();
        }
        expect(await dataplane.checkPort(after, soon())).toEqual([]);
      });

      it("moves it to another bridge", async () => {
        const request = portRequest(rig);
        await dataplane.ensurePort(request, soon());
        const moved = { ...request, bridge: rig.bridges[1] };
        expect((await dataplane.ensurePort(moved, soon())).bridge).toBe(rig.bridges[1]);
        expect((await dataplane.listPorts(soon())).map((port) => port.bridge)).toEqual([rig.bridges[1]]);
        expect(await dataplane.checkPort(moved, soon())).toEqual([]);
        expect(await dataplane.checkPort(request, soon())).toHaveLength(1);
      });

      it("changes MTU, sandbox and owner's details in place, without the guest losing its connection", async () => {
        const request = portRequest(rig);
        const listener = await listenOnSocket(request.socketPath);
        try {
          await dataplane.ensurePort(request, soon());
          await listener.dialled();
          const changed = portRequest(rig, {
            mtu: 4000,
            owner: { containerId: "c2", podName: "other", podUid: "" },
          });
          expect(await dataplane.checkPort(changed, soon())).not.toEqual([]);
          const state = await dataplane.ensurePort(changed, soon());
          expect(state).toMatchObject({ mtu: 4000, owner: changed.owner });
          expect(state.changes?.[0]).toContain("MTU");
          expect(await dataplane.checkPort(changed, soon())).toEqual([]);
          await expect(listener.hungUp(300)).rejects.toThrow("did not hang up");
        } finally {
          await listener.close();
        }
      });
    });

    describe("ports of others", () => {
      it("refuses a name that another program's port has, and leaves that port", async () => {
        const request = portRequest(rig);
        await rig.makeForeignPort(request.name, join(rig.socketDirectory, "foreign.sock"));
        expect((await failureOf(dataplane.ensurePort(request, soon()))).code).toBe("port-conflict");
        expect(await dataplane.removePort(request.name, soon())).toBe(false);
        expect(await dataplane.listPorts(soon())).toEqual([]);
        expect(await dataplane.checkPort(request, soon())).toHaveLength(1);
        expect(await rig.portNames()).toEqual([request.name]);
      });

      it("refuses a name that another allocation's port has", async () => {
        const request = portRequest(rig);
        await dataplane.ensurePort(request, soon());
        const other = portRequest(rig, {
          socketPath: join(rig.socketDirectory, "other.sock"),
          owner: { allocationId: "fedcba9876543210" },
        });
        const failure = await failureOf(dataplane.ensurePort(other, soon()));
        expect(failure.code).toBe("port-conflict");
        expect(failure.message).toContain(request.owner.allocationId);
        expect(await dataplane.checkPort(request, soon())).toEqual([]);
      });

      it("refuses a socket that another port serves", async () => {
        const request = portRequest(rig);
        await rig.makeForeignPort("foreign", request.socketPath);
        const failure = await failureOf(dataplane.ensurePort(request, soon()));
        expect(failure.code).toBe("port-conflict");
        expect(failure.message).toContain('"foreign"');
        expect(await rig.portNames()).toEqual(["foreign"]);
      });

      it("neither lists nor removes the ports of another node on the same switch", async () => {
        const request = portRequest(rig);
        await dataplane.ensurePort(request, soon());
        const other = rig.open("node-b");
        try {
          expect(await other.listPorts(soon())).toEqual([]);
          expect(await other.removePort(request.name, soon())).toBe(false);
          const theirs = portRequest(rig, { owner: { node: "node-b" } });
          expect((await failureOf(other.ensurePort(theirs, soon()))).code).toBe("port-conflict");
        } finally {
          await other.close();
        }
        expect(await dataplane.listPorts(soon())).toHaveLength(1);
      });
    });

    describe("inspecting it", () => {
      it("inspects the ports that it lists", async () => {
        const [one, other] = [portRequest(rig), portRequest(rig, { name: "vhu00000000000b" })];
        await dataplane.ensurePort(one, soon());
        await dataplane.ensurePort(other, soon());
        await rig.makeForeignPort("foreign", join(rig.socketDirectory, "foreign.sock"));
        const listed = await dataplane.listPorts(soon());
        const inspected = await dataplane.inspectPorts(soon());
        expect(inspected).toHaveLength(2);
        expect(inspected).toEqual(listed.map((port) => expect.objectContaining(port)));
        // No peer is connected, so there are no queues, and nothing went through.
        expect(inspected.flatMap(({ queuePairs }) => queuePairs ?? [])).toEqual([]);
        expect(inspected.flatMap(({ traffic }) => traffic?.toGuest.packets ?? 0)).toEqual([0, 0]);
      });

      it("has its name and release", async () => {
        expect(await dataplane.version(soon())).toMatch(/^(Open vSwitch.*DPDK|VPP \S)/);
      });
    });

    describe("refusing what cannot work", () => {
      it("names the existing bridges when the requested one is missing", async () => {
        const failure = await failureOf(dataplane.ensurePort(portRequest(rig, { bridge: "nope" }), soon()));
        expect(failure.code).toBe("bridge-missing");
        for (const bridge of ["nope", ...rig.bridges]) expect(failure.message).toContain(bridge);
        expect(await rig.portNames()).toEqual([]);
      });

      it("refuses a socket path that the kernel cannot hold", async () => {
        const socketPath = `${rig.socketDirectory}/${"x".repeat(108)}`;
        expect((await failureOf(dataplane.ensurePort(portRequest(rig, { socketPath }), soon()))).code).toBe(
          "path-too-long",
        );
        expect(await rig.portNames()).toEqual([]);
      });

      it("refuses an MTU that the switch would silently ignore", async () => {
        const failure = await failureOf(dataplane.ensurePort(portRequest(rig, { mtu: 65_000 }), soon()));
        expect(failure.code).toBe("port-failed");
        expect(failure.message).toContain("65000");
        expect(await rig.portNames()).toEqual([]);
      });
    });

    describe("removing a port", () => {
      it("removes it, makes the switch hang up, and may be repeated", async () => {
        const request = portRequest(rig);
        const listener = await listenOnSocket(request.socketPath);
        try {
          await dataplane.ensurePort(request, soon());
          await listener.dialled();
          expect(await dataplane.removePort(request.name, soon())).toBe(true);
          await listener.hungUp();
        } finally {
          await listener.close();
        }
        expect(await dataplane.removePort(request.name, soon())).toBe(false);
        expect(await rig.portNames()).toEqual([]);
        expect(await dataplane.checkPort(request, soon())).toHaveLength(1);
      });

      it("ends with no port when made and removed at once, or with the one that was made last", async () => {
        const request = portRequest(rig);
        const second = rig.open();
        try {
          const outcomes = await Promise.allSettled(
            Array.from({ length: 12 }, (_, index) =>
              index % 2 ? second.removePort(request.name, soon()) : dataplane.ensurePort(request, soon()),
            ),
          );
          for (const outcome of outcomes) {
            if (outcome.status === "rejected") expect(outcome.reason).toBeInstanceOf(Failure);
          }
        } finally {
          await second.close();
        }
        await dataplane.removePort(request.name, soon());
        expect(await rig.portNames()).toEqual([]);
      });
    });

    settingsContract(() => ({ rig, dataplane }));
    switchAwayContract(() => ({ rig, dataplane }));
  });
}
