import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type ApiRig, startApiRig } from "../../test/stand-in/api-server/api-rig.ts";
import { IpamCluster } from "../../test/stand-in/ipam/cluster.ts";
import { ended, StandInWhereabouts } from "../../test/stand-in/ipam/whereabouts.ts";
import { runCtl } from "./run-ctl.ts";

let rig: ApiRig;
let cluster: IpamCluster;
let old: StandInWhereabouts;
beforeEach(async () => {
  rig = await startApiRig();
  rig.server.namespaces.add("kube-system");
  cluster = new IpamCluster(rig.server);
  old = new StandInWhereabouts(rig.server.store, "10.0.0.0/24");
  cluster.pool("blue", ["10.0.0.0/25"], { whereabouts: {} });
});
afterEach(() => rig.close());

async function whereabouts(...args: readonly string[]) {
  let [stdout, stderr] = ["", ""];
  const write = (text: string) => {
    stdout += text;
  };
  const place = ["--service-account", rig.serviceAccountDirectory, "--api-server", rig.server.url];
  const code = await runCtl({
    args: ["ip", "whereabouts", ...place, ...args],
    screen: { columns: 80, colour: false, write },
    complain: (text) => {
      stderr += text;
    },
    node: "n1",
    version: "0.1.0",
    host: { proc: "/proc", sys: "/sys", kernel: "6.1.0", uid: 0, run: async () => "" },
  });
  return { code, stdout, stderr };
}

describe("vhostuserctl ip whereabouts", () => {
  it("shows pods with its addresses, networks that name it, and that it cannot be removed", async () => {
    const { store } = rig.server;
    const calls = ["web-0", "web-1"].map((name) => ({ pod: `shop/${name}`, container: name }));
    for (const call of calls) ended(old.add(call));
    store.create("tenant/network-attachment-definitions", old.network);
    cluster.blockOf("10.0.0.0/28", { kind: "Foreign" }, 2);
    const { code, stdout } = await whereabouts();
    expect(code).toBe(1);
    expect(stdout).toBe(
      [
        "RANGE        IMPORTED BY  LEFT",
        "10.0.0.0/24  blue            2",
        "",
        "  10.0.0.1  shop/web-0",
        "  10.0.0.2  shop/web-1",
        "",
        "whereabouts cannot be removed yet:",
        "  - NetworkAttachmentDefinition tenant/old names it",
        "  - addresses that pods have from it: 2",
        "  - 1 AddressBlock of kind Foreign: each is deleted some minutes after its last",
        "    address",
        "",
      ].join("\n"),
    );
    for (const call of calls) ended(old.del(call));
    store.remove("tenant/network-attachment-definitions", "old", {});
    expect(JSON.parse((await whereabouts("--json")).stdout)).toMatchObject({
      ...{ networks: [], reservations: [], blocks: ["default.10-0-0-0.28"], canBeRemoved: false },
      ranges: [{ range: "10.0.0.0/24", pools: ["blue"], left: [] }],
    });
    store.remove("addressblocks", "default.10-0-0-0.28", {});
    expect(await whereabouts()).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/\nwhereabouts can be removed/),
    });
  });

  it("shows an address of which only the reservation is left", async () => {
    const metadata = { name: "net-10.0.0.9", namespace: "kube-system" };
    rig.server.store.create("kube-system/overlappingrangeipreservations", {
      ...{ metadata, spec: { podref: "shop/web-9" } },
    });
    expect(await whereabouts()).toMatchObject({
      code: 1,
      stdout: expect.stringMatching(/10\.0\.0\.9 {2}shop\/web-9/),
    });
  });

  it("says what is wrong where it may not read, or has no token", async () => {
    rig.server.verbs.delete("list");
    expect(await whereabouts()).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/kube-api-refused.*forbidden/),
    });
    expect(await whereabouts("--service-account", "/nonexistent")).toMatchObject({
      ...{ code: 2, stderr: expect.stringMatching(/there is no token/) },
    });
  });
});
