import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { afterEach, beforeEach, expect, it } from "vitest";
import { DraRig } from "../../test/stand-in/dra/dra-rig.ts";
import { isOfClaim } from "../records/allocation-record.ts";
import { filesOfResult } from "./claim-files.ts";
import { inspectClaimFiles } from "./inspect-claim-files.ts";

let rig: DraRig;
beforeEach(async () => {
  rig = await DraRig.open();
});
afterEach(() => rig.close());

it("finds the files of each of a claim's ports, and says what is missing or wrong", async () => {
  await rig.prepare({ name: "c", results: [{}, {}] });
  const read = () =>
    Promise.all(
      rig.records.ports.list().map((port) => {
        const allocation = rig.records.allocations.get(port.allocationId);
        if (allocation === undefined || !isOfClaim(allocation)) throw new Error("no claim has the port");
        return inspectClaimFiles(allocation, port, rig.config);
      }),
    );
  const [first, second] = rig.records.allocations.list().filter(isOfClaim);
  if (first === undefined || second === undefined) throw new Error("two ports");
  const { cdi, metadata } = filesOfResult(first, rig.context);
  const good = { device: { file: cdi, state: "good" }, attachment: { file: metadata, state: "good" } };
  expect(await read()).toEqual([good, good]);

  writeFileSync(cdi, readFileSync(cdi, "utf8").replaceAll(second.id, "0"));
  writeFileSync(metadata, readFileSync(metadata, "utf8").replace("net.1/vhost.sock", "net.1/x"));
  expect(await read()).toMatchObject([
    good,
    {
      device: {
        state: "wrong",
        reason: expect.stringMatching(/^it has no device .* with the directory of /),
      },
      attachment: { state: "wrong", reason: expect.stringMatching(/^it does not name the socket .*net\.1/) },
    },
  ]);
  rmSync(cdi);
  writeFileSync(metadata, "{");
  const [one] = await read();
  expect(one).toMatchObject({ device: { state: "missing" }, attachment: { state: "wrong" } });
});
