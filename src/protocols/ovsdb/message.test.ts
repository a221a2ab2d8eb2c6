import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Failure } from "../../failure/failure.ts";
import { readMessage } from "./message.ts";

describe("a JSON-RPC message", () => {
  it("is a reply, a call or a notification", () => {
    expect(readMessage({ id: 1, result: [], error: null })).toEqual({
      kind: "reply",
      id: 1,
      result: [],
      error: null,
    });
    expect(readMessage({ id: "echo", method: "echo", params: [1] })).toEqual({
      kind: "call",
      id: "echo",
      method: "echo",
      params: [1],
    });
    expect(readMessage({ id: null, method: "update", params: [] })).toMatchObject({ kind: "call", id: null });
  });

  it.each([[1], [null], ["x"], [[]], [{}], [{ result: 1 }], [{ method: "echo" }]])("is not %j", (value) => {
    expect(() => readMessage(value)).toThrow(Failure);
  });

  it("is quoted in the failure", () => {
    expect(() => readMessage([1, 2])).toThrow("[1,2]");
  });

  it("is read or refused with a Failure, whatever it is", () => {
    fc.assert(
      fc.property(fc.anything(), (value) => {
        try {
          readMessage(value);
        } catch (error) {
          expect(error).toBeInstanceOf(Failure);
        }
      }),
    );
  });
});
