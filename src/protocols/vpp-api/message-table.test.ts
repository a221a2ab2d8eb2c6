import { describe, expect, it } from "vitest";
import { call } from "./call.ts";
import { i32, u32 } from "./fields.ts";
import { MessageTable } from "./message-table.ts";

const make = call("make_v2", ["aaaaaaaa", { a: u32, b: u32 }], ["bbbbbbbb", { retval: i32 }]);

const table = (...names: string[]) => new MessageTable(names.map((name, at) => ({ index: 100 + at, name })));

describe("the messages that a VPP says it has", () => {
  it("give a call the numbers of this connection", () => {
    const all = table("make_cccccccc", "make_reply_bbbbbbbb", "make_v2_aaaaaaaa", "make_v2_reply_bbbbbbbb");
    expect(all.resolve(make)).toEqual({ ask: 102, answer: 103 });
  });

  it("name a message that is missing, and its checksum", () => {
    expect(() => table("make_cccccccc").resolve(make)).toThrow(
      expect.objectContaining({
        code: "dataplane-misconfigured",
        message: expect.stringMatching(/no API message make_v2 .*aaaaaaaa/),
      }),
    );
  });

  it("name both checksums where they differ, of the request or of its answer", () => {
    expect(() => table("make_v2_00000001", "make_v2_reply_bbbbbbbb").resolve(make)).toThrow(
      /make_v2 has checksum 00000001, we know aaaaaaaa/,
    );
    expect(() => table("make_v2_aaaaaaaa", "make_v2_reply_00000002").resolve(make)).toThrow(
      /make_v2_reply has checksum 00000002, we know bbbbbbbb/,
    );
  });

  it("do not take a longer name for a shorter one", () => {
    expect(() => table("make_v2_other_00000001").resolve(make)).toThrow(/no API message make_v2 /);
  });
});
