import { join, resolve } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Dataplane } from "../../src/dataplane/dataplane.ts";
import { caseName, conformanceCases, tryCase } from "../contract/cni-conformance.ts";
import { conformanceTable } from "../contract/cni-conformance-table.ts";
import { type CniExecutable, compileCniExecutable } from "../stand-in/cni/cni-executable.ts";
import { CniRig } from "../stand-in/cni/cni-rig.ts";
import { IpamPlugin } from "../stand-in/cni/ipam-plugin.ts";
import { type OvsRig, startOvsRig } from "./ovs-rig.ts";

let ovs: OvsRig;
let dataplane: Dataplane;
let executable: CniExecutable;

beforeAll(async () => {
  ovs = await startOvsRig();
  dataplane = ovs.open("n1");
  executable = await compileCniExecutable();
});
afterAll(async () => {
  await executable?.[Symbol.asyncDispose]();
  await dataplane?.close();
  await ovs?.close();
});
beforeEach(() => ovs.reset());

const TABLE = resolve(import.meta.dirname, "../../docs/cni-conformance.md");
const cases = conformanceCases();

describe("the CNI executable and Open vSwitch, every verb of every version in every situation", () => {
  const outcomes = new Map<string, string>();

  it.each(cases.map((one) => [caseName(one), one] as const))("%s", async (name, one) => {
    const rig = await CniRig.open({
      pool: { dataplane: { type: "ovs-dpdk", bridge: ovs.bridges[0] } },
      dataplane,
      execute: executable.run,
    });
    try {
      const ipam = await IpamPlugin.install({ binDir: rig.binDir, directory: join(rig.top, "ipam") });
      await rig.allocate("sockets-00001", "sockets-00002", "sockets-00003");
      outcomes.set(name, await tryCase(one, { rig, ipam }));
      const inSwitch = await ovs.portNames();
      expect(inSwitch.filter((name) => name.startsWith("vhu"))).toHaveLength(rig.states().length);
    } finally {
      await rig.close();
    }
  });
  it("is what docs/cni-conformance.md says (else: vitest -u with this file)", async () => {
    expect(outcomes.size, "run the whole file").toBe(cases.length);
    await expect(conformanceTable(outcomes)).toMatchFileSnapshot(TABLE);
  });
});
