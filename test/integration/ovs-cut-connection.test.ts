import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { Dataplane } from "../../src/dataplane/dataplane.ts";
import { openOvsDataplane } from "../../src/dataplane/ovs/ovs-dataplane.ts";
import type { PortRequest } from "../../src/dataplane/port.ts";
import { Failure } from "../../src/failure/failure.ts";
import { silentLogger } from "../../src/logging/logger.ts";
import { portRequest, soon } from "../contract/switch-under-test.ts";
import { type CuttingProxy, startCuttingProxy } from "./cutting-proxy.ts";
import { type OvsRig, startOvsRig } from "./ovs-rig.ts";

const CUTS = 12;

/** The connection dies at many places in the traffic of one call; then it is unknown what the switch has done. */
describe("a connection to the switch that is cut in the middle", () => {
  let rig: OvsRig;
  let proxy: CuttingProxy;
  let dataplane: Dataplane;
  let request: PortRequest;

  beforeAll(async () => {
    rig = await startOvsRig();
    proxy = await startCuttingProxy(join(rig.socketDirectory, "proxy"), rig.ovs.databaseSocket);
    const databaseSocket = proxy.path;
    dataplane = openOvsDataplane({ databaseSocket, node: "node-a", logger: silentLogger });
    request = portRequest(rig);
  });
  afterEach(async () => {
    proxy.arm();
    await rig.reset();
  });
  afterAll(async () => {
    await dataplane?.close();
    await proxy?.close();
    await rig?.close();
  });

  /** Runs `call` once whole to learn how many bytes it takes, then once for each cut, from the same beginning. */
  async function cutEverywhere(
    direction: "toServer" | "toClient",
    prepare: () => Promise<unknown>,
    call: () => Promise<unknown>,
    check: (failed: boolean) => Promise<void>,
  ): Promise<void> {
    await prepare();
    proxy.arm();
    await call();
    const whole = proxy.seen[direction];
    let failures = 0;
    for (let cut = 0; cut < CUTS; cut += 1) {
      await prepare();
      proxy.arm({ direction, afterBytes: Math.floor((whole * cut) / CUTS) });
      const failure = await call().then(
        () => undefined,
        (thrown: unknown) => thrown,
      );
      if (failure !== undefined) {
        failures += 1;
        expect(failure).toBeInstanceOf(Failure);
        expect((failure as Failure).code).toBe("dataplane-unavailable");
      }
      await check(failure !== undefined);
    }
    expect(failures).toBeGreaterThan(CUTS / 2); // else the cuts did not hit anything
  }

  it.each(["toServer", "toClient"] as const)(
    "leaves nothing of a new port, and the repeated call makes it (bytes %s)",
    async (direction) => {
      await cutEverywhere(
        direction,
        () => rig.reset(),
        () => dataplane.ensurePort(request, soon()),
        async (failed) => {
          expect(await rig.portNames()).toEqual(failed ? [] : [request.name]);
          await dataplane.ensurePort(request, soon());
          expect(await rig.portNames()).toEqual([request.name]);
          expect(await dataplane.checkPort(request, soon())).toEqual([]);
        },
      );
    },
  );

  it.each(["toServer", "toClient"] as const)(
    "leaves at most the old port when it is moved, and the repeated call moves it (bytes %s)",
    async (direction) => {
      const moved = {
        ...request,
        bridge: rig.bridges[1],
        socketPath: join(rig.socketDirectory, "moved.sock"),
      };
      await cutEverywhere(
        direction,
        async () => {
          await rig.reset();
          await dataplane.ensurePort(request, soon());
        },
        () => dataplane.ensurePort(moved, soon()),
        async (failed) => {
          const [left, ...more] = await dataplane.listPorts(soon());
          expect(more).toEqual([]);
          if (failed && left !== undefined) expect(left.socketPath).toBe(request.socketPath);
          await dataplane.ensurePort(moved, soon());
          expect(await dataplane.checkPort(moved, soon())).toEqual([]);
          expect(await rig.portNames()).toEqual([request.name]);
        },
      );
    },
  );

  it.each(["toServer", "toClient"] as const)(
    "lets a removal be repeated until it is done (bytes %s)",
    async (direction) => {
      await cutEverywhere(
        direction,
        () => dataplane.ensurePort(request, soon()),
        () => dataplane.removePort(request.name, soon()),
        async () => {
          await dataplane.removePort(request.name, soon());
          expect(await rig.portNames()).toEqual([]);
        },
      );
    },
  );
});
