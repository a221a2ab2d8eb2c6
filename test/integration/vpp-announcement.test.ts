import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { announcementFrames, unusedGroup } from "../../src/announcement/frames.ts";
import type { PortSettings } from "../../src/config/port-settings.ts";
import type { Dataplane, LinkChange } from "../../src/dataplane/dataplane.ts";
import { openVppDataplane } from "../../src/dataplane/vpp/vpp-dataplane.ts";
import { silentLogger } from "../../src/logging/logger.ts";
import { portRequest, soon } from "../contract/switch-under-test.ts";
import { type LabRun, openLabRun } from "../machine/lab-run.ts";
import { waitUntil } from "../machine/wait-until.ts";
import { VppStandIn } from "../stand-in/vpp/vpp.ts";

const FRAMES = announcementFrames(
  { mac: "02:00:00:00:00:07", addresses: ["10.9.0.5", "fd09::5"], vlans: [7] },
  unusedGroup(),
);
const PORT = "vhu0123456789ab";

// On the stand-in only, which can play a guest that comes and goes: test/vpp/ has the same with guests and frames.
describe("announcing a guest through VPP's stand-in", () => {
  let run: LabRun;
  let vpp: VppStandIn;
  let dataplane: Dataplane;
  let changes: LinkChange[];
  let warnings: string[];
  const closing = new AbortController();

  beforeAll(async () => {
    run = await openLabRun();
  });
  beforeEach(async () => {
    vpp = new VppStandIn({ path: join(run.directory, "api.sock") });
    await vpp.start();
    changes = [];
    warnings = [];
    const logger = {
      ...silentLogger,
      warn: (_: unknown, line?: string) => warnings.push(line ?? ""),
    } as typeof silentLogger;
    dataplane = openVppDataplane({
      apiSocket: join(run.directory, "api.sock"),
      node: "node-a",
      ownersOf: () => [],
      logger,
    });
  });
  afterEach(async () => {
    await dataplane.close();
    await vpp.kill();
    expect(vpp.violations).toEqual([]);
  });
  afterAll(async () => {
    closing.abort();
    await run?.close();
  });

  const request = (settings: PortSettings = {}, name = PORT) =>
    portRequest(
      { bridges: ["20", "20"], socketDirectory: run.directory },
      { name, bridge: "20", settings, owner: { containerId: name } },
    );
  const make = (settings: PortSettings = { createBridge: true }, name = PORT) =>
    dataplane.ensurePort(request(settings, name), soon());
  const watch = async () => {
    void dataplane.watchLinks((change) => changes.push(change), closing.signal);
    // The first check reports nothing, so a port that is made afterwards shows that it took place.
    await make({ createBridge: true }, "probe");
    await waitUntil(
      async () => {
        vpp.setGuest(request({}, "probe").socketPath, true);
        vpp.setGuest(request({}, "probe").socketPath, false);
        return changes.some(({ link }) => link === "up");
      },
      { what: "links are watched" },
    );
    await dataplane.removePort("probe", soon());
    changes.length = 0;
  };
  const reported = (...expected: LinkChange["link"][]) =>
    waitUntil(() => changes.map(({ link }) => link).join() === expected.join(), {
      what: `links were reported: ${expected.join()}`,
      detail: () => JSON.stringify(changes),
    });
  const announce = () => dataplane.announce({ name: PORT, bridge: "20" }, FRAMES, soon());
  const { socketPath } = portRequest({ bridges: ["", ""], socketDirectory: "" });
  const guest = (up: boolean) => vpp.setGuest(join(run.directory, socketPath), up);

  it("hands the frames to the port's interface while its guest is there, and leaves no stream", async () => {
    await watch();
    await make();
    expect(await announce()).toBe(false);
    guest(true);
    await reported("up");
    expect(changes[0]?.port).toBe(PORT);
    expect(await announce()).toBe(true);
    expect(vpp.sent.map(({ frame }) => frame).sort()).toEqual(
      FRAMES.map((frame) => Buffer.from(frame).toString("hex")).sort(),
    );
    expect(new Set(vpp.sent.map(({ socket }) => socket))).toEqual(new Set([request().socketPath]));
    expect(vpp.streams).toEqual([]);
    guest(false);
    await reported("up", "down");
    expect(await announce()).toBe(false);
    expect(vpp.sent).toHaveLength(FRAMES.length);
  });

  it("reports no ports that are already up or not ours, and a removed one as down", async () => {
    await make();
    guest(true);
    const other = openVppDataplane({
      apiSocket: join(run.directory, "api.sock"),
      node: "node-b",
      ownersOf: () => [],
      logger: silentLogger,
    });
    await watch();
    const foreign = portRequest(
      { bridges: ["20", "20"], socketDirectory: run.directory },
      { name: "theirs", bridge: "20", owner: { node: "node-b" } },
    );
    await other.ensurePort(foreign, soon());
    vpp.setGuest(foreign.socketPath, true);
    await dataplane.removePort(PORT, soon());
    await reported("down");
    await other.close();
  });

  it("reports guests that are back after a restart of VPP", async () => {
    await watch();
    await make();
    guest(true);
    await reported("up");
    await vpp.kill();
    await vpp.start();
    await reported("up", "down");
    await make();
    guest(true);
    await reported("up", "down", "up");
    expect(await announce()).toBe(true);
  });

  it("announces nothing by a routed port", async () => {
    await watch();
    const hosts = [{ address: "10.9.0.5", gateway: "10.9.0.1" }];
    await make({ routed: { vrf: 0, hosts } });
    guest(true);
    await reported("up");
    expect(await announce()).toBe(false);
    expect(vpp.sent).toEqual([]);
  });

  it("works without, and logs it once, where VPP has no packet generator", async () => {
    await watch();
    await make();
    guest(true);
    await reported("up");
    vpp.refusesLines = "all";
    expect([await announce(), await announce()]).toEqual([false, false]);
    expect(warnings.filter((line) => line.includes("cannot announce"))).toHaveLength(1);
    expect(vpp.streams).toEqual([]);
  });

  it("fails where VPP refuses a frame, and announces again once it takes them", async () => {
    await watch();
    await make();
    guest(true);
    await reported("up");
    vpp.refusesLines = "streams";
    await expect(announce()).rejects.toMatchObject({ code: "port-failed", message: /pg0 is in use/ });
    vpp.refusesLines = undefined;
    expect(await announce()).toBe(true);
    expect(warnings.filter((line) => line.includes("cannot announce"))).toEqual([]);
  });
});
