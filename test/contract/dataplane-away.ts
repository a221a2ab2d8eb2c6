import { describe, expect, it } from "vitest";
import type { Dataplane } from "../../src/dataplane/dataplane.ts";
import type { PortRequest } from "../../src/dataplane/port.ts";
import { listenOnSocket } from "./socket-listener.ts";
import { failureOf, portRequest, type SwitchUnderTest, soon } from "./switch-under-test.ts";

/** The part of the dataplane contract in which switch or control socket are down; needs a rig that is up. */
export function switchAwayContract(
  get: () => { readonly rig: SwitchUnderTest; readonly dataplane: Dataplane },
): void {
  describe("a switch that is down", () => {
    const codesOfAllCalls = (request: PortRequest, signal: AbortSignal) => {
      const { dataplane } = get();
      const calls = [
        dataplane.ensurePort(request, signal),
        dataplane.removePort(request.name, signal),
        dataplane.listPorts(signal),
        dataplane.inspectPorts(signal),
        dataplane.version(signal),
        dataplane.checkPort(request, signal),
      ];
      return Promise.all(calls.map(async (call) => (await failureOf(call)).code));
    };

    it("is ready with a good bridge, and says why with a missing one", async () => {
      const { rig, dataplane } = get();
      expect(await dataplane.probe(rig.bridges[0], soon())).toMatchObject({ ready: true });
      expect(await dataplane.probe("nope", soon())).toMatchObject({
        ready: false,
        reason: expect.stringContaining('"nope"'),
      });
    });

    it("fails with the switch down, leaves nothing behind, and works when it is back", async () => {
      const { rig, dataplane } = get();
      const request = portRequest(rig);
      await rig.killSwitch();
      // What keeps its configuration may answer before it has noticed.
      await expect.poll(() => dataplane.probe(rig.bridges[0], soon())).toMatchObject({ ready: false });
      const failure = await failureOf(dataplane.ensurePort(request, AbortSignal.timeout(1_000)));
      // A switch whose configuration lives apart from it takes the request and then does not act on it.
      expect(["dataplane-timeout", "dataplane-unavailable"]).toContain(failure.code);
      await rig.startSwitch();
      expect(await rig.portNames()).toEqual([]);
      await dataplane.ensurePort(request, soon());
      expect(await dataplane.probe(rig.bridges[0], soon())).toMatchObject({ ready: true });
    });

    it("removes a port for good with the switch down", async () => {
      const { rig, dataplane } = get();
      const request = portRequest(rig);
      await dataplane.ensurePort(request, soon());
      await rig.killSwitch();
      if (rig.forgets !== true) expect(await dataplane.removePort(request.name, soon())).toBe(true);
      await rig.startSwitch();
      expect(await rig.portNames()).toEqual([]);
    });

    it("keeps a port over a restart of the switch", async () => {
      const { rig, dataplane } = get();
      const request = portRequest(rig);
      await dataplane.ensurePort(request, soon());
      await rig.killSwitch();
      await rig.startSwitch();
      const listener = await listenOnSocket(request.socketPath);
      try {
        await dataplane.ensurePort(request, soon());
        await listener.dialled();
      } finally {
        await listener.close();
      }
    });

    it("fails at once without a switch, and works again when one is running", async () => {
      const { rig, dataplane } = get();
      const request = portRequest(rig);
      await dataplane.ensurePort(request, soon());
      await rig.killControl();
      expect(await codesOfAllCalls(request, soon())).toEqual(Array(6).fill("dataplane-unavailable"));
      expect(await dataplane.probe(rig.bridges[0], soon())).toMatchObject({ ready: false });
      await rig.startControl();
      expect(await dataplane.listPorts(soon())).toHaveLength(rig.forgets === true ? 0 : 1);
      expect(await dataplane.probe(rig.bridges[0], soon())).toMatchObject({ ready: true });
      expect(await dataplane.removePort(request.name, soon())).toBe(rig.forgets !== true);
    });

    it("rejects with a Failure when the signal has fired already", async () => {
      const { rig, dataplane } = get();
      const fired = AbortSignal.abort();
      const codes = await codesOfAllCalls(portRequest(rig), fired);
      expect(codes).toEqual(Array(6).fill("dataplane-timeout"));
      expect(await dataplane.probe(rig.bridges[0], fired)).toMatchObject({ ready: false });
    });
  });
}
