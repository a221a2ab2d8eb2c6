import { join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { caseName, conformanceCases, tryCase } from "../../test/contract/cni-conformance.ts";
import { conformanceTable } from "../../test/contract/cni-conformance-table.ts";
import { type CniExecutable, compileCniExecutable } from "../../test/stand-in/cni/cni-executable.ts";
import { CniRig } from "../../test/stand-in/cni/cni-rig.ts";
import { IpamPlugin } from "../../test/stand-in/cni/ipam-plugin.ts";

let executable: CniExecutable;

beforeAll(async () => {
  executable = await compileCniExecutable();
});
afterAll(() => executable?.[Symbol.asyncDispose]());

const TABLE = resolve(import.meta.dirname, "../../docs/cni-conformance.md");
const cases = conformanceCases();

describe("the CNI executable and the daemon, every verb of every version in every situation", () => {
  const outcomes = new Map<string, string>();

  it.each(cases.map((one) => [caseName(one), one] as const))("%s", async (name, one) => {
    const rig = await CniRig.open({ execute: executable.run });
    try {
      const ipam = await IpamPlugin.install({ binDir: rig.binDir, directory: join(rig.top, "ipam") });
      await rig.allocate("sockets-00001", "sockets-00002", "sockets-00003");
      outcomes.set(name, await tryCase(one, { rig, ipam }));
    } finally {
      await rig.close();
    }
  });
  it("is what docs/cni-conformance.md says (else: vitest -u with this file)", async () => {
    expect(outcomes.size, "run the whole file").toBe(cases.length);
    await expect(conformanceTable(outcomes)).toMatchFileSnapshot(TABLE);
  });
});
