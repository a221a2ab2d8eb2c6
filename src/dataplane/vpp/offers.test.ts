import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { portRequest, soon } from "../../../test/contract/switch-under-test.ts";
import { failureOf } from "../../../test/stand-in/failure-of.ts";
import { VppStandIn, type VppStandInOptions } from "../../../test/stand-in/vpp/vpp.ts";
import { silentLogger } from "../../logging/logger.ts";
import type { Dataplane } from "../dataplane.ts";
import { openVppDataplane } from "./vpp-dataplane.ts";

const HOSTS = [
  { address: "10.9.0.5", gateway: "10.9.0.1" },
  { address: "fd09::5", gateway: "fd09::1" },
];

describe("what a VPP offers", () => {
  let directory: string;
  let vpp: VppStandIn;
  let dataplane: Dataplane;
  let warnings: string[];

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), "vpp-"));
    warnings = [];
  });
  afterEach(async () => {
    await dataplane.close();
    await vpp.kill();
    await rm(directory, { recursive: true, force: true });
  });

  const start = async (options: Omit<VppStandInOptions, "path">) => {
    const apiSocket = join(directory, "api.sock");
    vpp = new VppStandIn({ path: apiSocket, ...options });
    await vpp.start();
    const warn = ({ reason }: { readonly reason?: string }) => warnings.push(reason ?? "");
    const logger = { ...silentLogger, warn } as typeof silentLogger;
    dataplane = openVppDataplane({ apiSocket, node: "node-a", ownersOf: () => [], logger });
  };
  const request = (settings: object = { createBridge: true }) =>
    portRequest({ bridges: ["20", "20"], socketDirectory: directory }, { bridge: "20", settings });
  const readiness = () => dataplane.probe("20", soon());

  it("is everything with the newest release", async () => {
    await start({});
    await dataplane.ensurePort(request(), soon());
    expect(await readiness()).toEqual({ ready: true, limitations: [] });
  });

  it.each([
    { lacks: ["create_vhost_user_if_v2"] },
    { lacks: ["sw_interface_set_mtu_reply"] },
    { lacks: ["ip_unnumbered_dump"] },
    { checksums: { sw_interface_set_l2_bridge: "01234567" } },
    { checksums: { sw_interface_details: "01234567" } },
  ])(
    "is no port without any of the messages that a port needs, and the node is unhealthy: %j",
    async (options) => {
      await start(options);
      const [name] = [...(options.lacks ?? []), ...Object.keys(options.checksums ?? {})];
      expect(await readiness()).toEqual({ ready: false, reason: expect.stringContaining(name ?? "") });
      expect(await failureOf(dataplane.ensurePort(request(), soon()))).toMatchObject({
        code: "dataplane-misconfigured",
        message: expect.stringContaining(name ?? ""),
      });
    },
  );

  it.each([
    ["limits", "policer_add_del", { fromGuest: { rate: 1_000_000, burst: 1_000_000 } }],
    ["VLANs", "l2_interface_efp_filter", { vlan: { mode: "access", tag: 5, trunks: [], customerVlans: [] } }],
    ["routed ports", "ip_route_lookup_reply", { routed: { vrf: 0, hosts: HOSTS } }],
  ])("is all but %s without %s", async (what, lacking, settings) => {
    await start({ lacks: [lacking] });
    await dataplane.ensurePort(request(), soon());
    expect(await readiness()).toEqual({
      ready: true,
      limitations: [expect.stringMatching(new RegExp(`^no ${what}: .*${lacking}`))],
    });
    expect(await dataplane.removePort(request().name, soon())).toBe(true);
    expect(await failureOf(dataplane.ensurePort(request(settings), soon()))).toMatchObject({
      code: "dataplane-misconfigured",
      message: expect.stringContaining(lacking),
    });
    expect(vpp.violations).toEqual([]);
  });

  it("is no announcement before 26.02, which the log says once", async () => {
    await start({ release: "24.10" });
    const closing = new AbortController();
    await dataplane.ensurePort(request(), soon());
    expect(await readiness()).toEqual({
      ready: true,
      limitations: [expect.stringMatching(/^no announcements: VPP 24\.10-release .*26\.02/)],
    });
    const links: string[] = [];
    void dataplane.watchLinks(({ link }) => links.push(link), closing.signal);
    await expect
      .poll(() => {
        vpp.setGuest(request().socketPath, false);
        vpp.setGuest(request().socketPath, true);
        return links.at(-1);
      })
      .toBe("up");
    const announce = () =>
      dataplane.announce({ name: request().name, bridge: "20" }, [Buffer.alloc(60)], soon());
    expect([await announce(), await announce()]).toEqual([false, false]);
    expect(warnings).toEqual([expect.stringContaining("26.02")]);
    expect(vpp.violations).toEqual([]);
    closing.abort();
  });

  it("is no routed port before 24.10", async () => {
    await start({ release: "22.06.1" });
    await dataplane.ensurePort(request(), soon());
    expect(await readiness()).toMatchObject({
      limitations: [expect.stringMatching(/^no routed ports: VPP 22\.06\.1-release/), expect.anything()],
    });
    const refused = request({ routed: { vrf: 0, hosts: HOSTS } });
    expect(await failureOf(dataplane.ensurePort(refused, soon()))).toMatchObject({
      code: "dataplane-misconfigured",
      fix: "use VPP 24.10 or later",
    });
    expect(await dataplane.removePort(request().name, soon())).toBe(true);
  });

  it("is a routed port that takes its neighbours with it, which a VPP before 26.02 would keep", async () => {
    await start({ release: "24.10" });
    const routed = request({ routed: { vrf: 0, hosts: HOSTS } });
    await dataplane.ensurePort(routed, soon());
    expect(await dataplane.removePort(routed.name, soon())).toBe(true);
    expect(vpp.violations).toEqual([]);
  });
});
