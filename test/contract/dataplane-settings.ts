import { describe, expect, it } from "vitest";
import { type PortSettings, portSettingsSchema } from "../../src/config/port-settings.ts";
import type { Dataplane } from "../../src/dataplane/dataplane.ts";
import { listenOnSocket } from "./socket-listener.ts";
import { failureOf, portRequest, type SwitchUnderTest, soon } from "./switch-under-test.ts";

const MBIT = 1_000_000;
const vlan = (settings: object): PortSettings => portSettingsSchema.parse({ vlan: settings });

/** Each setting twice, so that one can be changed to the other. */
const SAMPLES: readonly (readonly [what: string, one: PortSettings, other: PortSettings])[] = [
  ["an access VLAN", vlan({ mode: "access", tag: 5 }), vlan({ mode: "access", tag: 6 })],
  ["a trunk", vlan({ mode: "trunk", trunks: [2, 3] }), vlan({ mode: "trunk", trunks: [7, 3] })],
  [
    "a native VLAN",
    vlan({ mode: "native-tagged", tag: 5, trunks: [6] }),
    vlan({ mode: "native-untagged", tag: 5, trunks: [6] }),
  ],
  [
    "a tunnel",
    vlan({ mode: "dot1q-tunnel", tag: 5 }),
    vlan({ mode: "dot1q-tunnel", tag: 5, customerVlans: [8], tunnelEthertype: "802.1q" }),
  ],
  [
    "a limit for what the guest sends",
    { fromGuest: { rate: 100 * MBIT, burst: MBIT } },
    { fromGuest: { rate: 200 * MBIT, burst: 0 } },
  ],
  [
    "a limit for what the guest receives",
    { toGuest: { rate: 100 * MBIT, burst: MBIT } },
    { toGuest: { rate: 100 * MBIT, burst: MBIT, excess: { rate: 50 * MBIT, burst: MBIT } } },
  ],
  ["retries", { transmitRetries: 0 }, { transmitRetries: 32 }],
  ["cores", { receiveQueueCores: [[0, 1]] }, { receiveQueueCores: [[0, 1], [1, 1]] }], // biome-ignore format: a pair each
  ["isolation", { isolated: true }, { isolated: false }],
  ["ids for controllers", { externalIds: { "iface-id": "a" } }, { externalIds: { "iface-id": "b", x: "" } }],
];

/** Requests that no switch can honour. */
const WRONG: readonly (readonly [what: string, settings: PortSettings])[] = [
  ["an access port without a tag", vlan({ mode: "access" })],
  ["a trunk with a tag", vlan({ mode: "trunk", tag: 5 })],
  ["a burst smaller than a frame", { toGuest: { rate: MBIT, burst: 8 } }],
  ["a queue on two cores", { receiveQueueCores: [[0, 1], [0, 0]] }], // biome-ignore format: a pair each
  ["an id of ours", { externalIds: { owner: "me" } }],
];

/** The part of the dataplane contract that is about {@link PortSettings}. */
export function settingsContract(
  get: () => { readonly rig: SwitchUnderTest; readonly dataplane: Dataplane },
): void {
  const lacking = (settings: PortSettings) => {
    const { lacks, lacksVlanModes = [] } = get().rig;
    const modes = lacksVlanModes.filter((mode) => settings.vlan?.mode === mode);
    return [...lacks.filter((name) => settings[name] !== undefined), ...modes];
  };

  describe("settings", () => {
    it.each(SAMPLES)(
      "apply %s, change and reset it in place, and keep the guest connected",
      async (...args) => {
        const [, one, other] = args;
        const { rig, dataplane } = get();
        const request = portRequest(rig, { settings: one });
        if (lacking(one).length > 0) {
          const failure = await failureOf(dataplane.ensurePort(request, soon()));
          expect(failure.code).toBe("setting-unsupported");
          expect(await rig.portNames()).toEqual([]);
          return;
        }
        const listener = await listenOnSocket(request.socketPath);
        try {
          await dataplane.ensurePort(request, soon());
          await listener.dialled();
          let before = request;
          for (const settings of [other, one, {}, one]) {
            const after = portRequest(rig, { settings });
            expect(await dataplane.checkPort(before, soon())).toEqual([]);
            expect(await dataplane.checkPort(after, soon())).not.toEqual([]);
            await dataplane.ensurePort(after, soon());
            expect(await dataplane.checkPort(after, soon())).toEqual([]);
            before = after;
          }
          await expect(listener.hungUp(300)).rejects.toThrow("did not hang up");
        } finally {
          await listener.close();
        }
        await dataplane.removePort(request.name, soon());
        expect(await rig.belongings()).toEqual([]);
      },
    );

    it("apply all at once", async () => {
      const { rig, dataplane } = get();
      const all = Object.assign({}, ...SAMPLES.map(([, , other]) => other)) as PortSettings;
      for (const name of rig.lacks) delete all[name];
      const request = portRequest(rig, { settings: all });
      await dataplane.ensurePort(request, soon());
      expect(await dataplane.checkPort(request, soon())).toEqual([]);
    });

    it.each(WRONG)(
      "are refused where they cannot be honoured, and nothing is made: %s",
      async (_, settings) => {
        const { rig, dataplane } = get();
        const failure = await failureOf(dataplane.ensurePort(portRequest(rig, { settings }), soon()));
        expect(failure.code).toBe(
          lacking(settings).length > 0 ? "setting-unsupported" : "invalid-network-config",
        );
        expect(await rig.portNames()).toEqual([]);
        expect(await rig.belongings()).toEqual([]);
      },
    );
  });

  describe("a routed port", () => {
    const hosts = [
      { address: "10.9.0.5", gateway: "10.9.0.1" },
      { address: "fd09::5", gateway: "fd09::1" },
    ];
    const settings: PortSettings = { routed: { vrf: 9, createVrf: true, hosts } };
    const other: PortSettings = { routed: { vrf: 0, hosts: hosts.slice(0, 1) } };

    it("is made, moved in place to a bridge and back, and leaves nothing behind, where the switch supports it", async (context) => {
      const { rig, dataplane } = get();
      if ((await rig.offers?.("routed ports")) === false) return context.skip();
      const request = portRequest(rig, { settings });
      if (lacking(settings).length > 0) {
        const failure = await failureOf(dataplane.ensurePort(request, soon()));
        expect(failure.code).toBe("setting-unsupported");
        expect(await rig.portNames()).toEqual([]);
        return;
      }
      const listener = await listenOnSocket(request.socketPath);
      try {
        expect((await dataplane.ensurePort(request, soon())).bridge).toBe("");
        await listener.dialled();
        let before = request;
        for (const next of [other, {}, settings]) {
          const after = portRequest(rig, { settings: next });
          expect(await dataplane.checkPort(before, soon())).toEqual([]);
          expect(await dataplane.checkPort(after, soon())).not.toEqual([]);
          await dataplane.ensurePort(after, soon());
          before = after;
        }
        expect(await dataplane.checkPort(before, soon())).toEqual([]);
        await expect(listener.hungUp(300)).rejects.toThrow("did not hang up");
      } finally {
        await listener.close();
      }
      await dataplane.removePort(request.name, soon());
      expect(await rig.belongings()).toEqual([]);
    });
  });

  describe("a bridge that is made on request", () => {
    const settings: PortSettings = { createBridge: true };

    it("is made once for many ports at once, and stays when they go", async (context) => {
      const { rig, dataplane } = get();
      if (lacking(settings).length > 0) return context.skip();
      const second = rig.open();
      const requests = ["vhu-a", "vhu-b", "vhu-c", "vhu-d"].map((name) =>
        portRequest(rig, { name, bridge: "br-new", settings }),
      );
      try {
        const made = await Promise.all(
          requests.map((request, index) => (index % 2 ? dataplane : second).ensurePort(request, soon())),
        );
        expect(made.map(({ bridge }) => bridge)).toEqual(Array(4).fill("br-new"));
      } finally {
        await second.close();
      }
      for (const { name } of requests) expect(await dataplane.removePort(name, soon())).toBe(true);
      expect(await dataplane.probe("br-new", soon())).toMatchObject({ ready: true });
      await dataplane.ensurePort(portRequest(rig, { bridge: "br-new" }), soon());
    });
  });

  describe("state that a switch keeps beside its ports", () => {
    const limited = (rig: SwitchUnderTest) =>
      portRequest(rig, {
        settings: rig.lacks.includes("toGuest") ? {} : { toGuest: { rate: MBIT, burst: 0 } },
      });

    it("goes when another client removed the port", async () => {
      const { rig, dataplane } = get();
      await dataplane.ensurePort(limited(rig), soon());
      await rig.removeBehindOurBack(limited(rig).name);
      await dataplane.removeStrays(soon());
      expect(await rig.belongings()).toEqual([]);
      expect(await dataplane.removeStrays(soon())).toBe(0);
    });

    it("is not doubled when the port is made again, and goes with it", async () => {
      const { rig, dataplane } = get();
      await dataplane.ensurePort(limited(rig), soon());
      const belongings = (await rig.belongings()).length;
      await rig.removeBehindOurBack(limited(rig).name);
      await dataplane.ensurePort(limited(rig), soon());
      expect(await rig.belongings()).toHaveLength(belongings);
      await dataplane.removePort(limited(rig).name, soon());
      expect(await rig.belongings()).toEqual([]);
    });

    it("goes at a removal that finds the port gone", async () => {
      const { rig, dataplane } = get();
      await dataplane.ensurePort(limited(rig), soon());
      await rig.removeBehindOurBack(limited(rig).name);
      expect(await dataplane.removePort(limited(rig).name, soon())).toBe(false);
      expect(await rig.belongings()).toEqual([]);
    });

    it("is no stray as long as its port lives, nor for another node", async () => {
      const { rig, dataplane } = get();
      await dataplane.ensurePort(limited(rig), soon());
      expect(await dataplane.removeStrays(soon())).toBe(0);
      const belongings = await rig.belongings();
      await rig.removeBehindOurBack(limited(rig).name);
      const other = rig.open("node-b");
      try {
        expect(await other.removeStrays(soon())).toBe(0);
      } finally {
        await other.close();
      }
      expect(await rig.belongings()).toEqual(belongings);
      await dataplane.removeStrays(soon());
    });
  });
}
