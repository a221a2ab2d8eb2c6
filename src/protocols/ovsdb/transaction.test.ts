import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Failure } from "../../failure/failure.ts";
import { guard, lostRace, type Operation, readOutcome, requireCommitted } from "./transaction.ts";

const operations: Operation[] = [
  guard("Bridge", [], ["name"], []),
  { op: "insert", table: "Port", "uuid-name": "p", row: { name: "x" } },
];

describe("the answer to a transaction", () => {
  it("has one result for each operation when it was committed", () => {
    const outcome = readOutcome(operations, [{}, { uuid: ["uuid", "1"] }]);
    expect(outcome.committed).toBe(true);
    expect(requireCommitted(operations, outcome)).toHaveLength(2);
  });

  it("names the operation that failed", () => {
    const outcome = readOutcome(operations, [{}, { error: "unknown column", details: "no frob" }]);
    expect(outcome).toEqual({
      committed: false,
      failedAt: 1,
      error: "unknown column",
      details: "no frob",
    });
    expect(lostRace(operations, outcome)).toBe(false);
    expect(() => requireCommitted(operations, outcome)).toThrow(
      "unknown column: no frob (insert Port, operation 1)",
    );
  });

  it("has an element more than operations when the commit failed", () => {
    const outcome = readOutcome(operations, [{}, {}, { error: "constraint violation", details: "twice" }]);
    expect(outcome).toMatchObject({ committed: false, failedAt: 2 });
    expect(lostRace(operations, outcome)).toBe(true);
    expect(() => requireCommitted(operations, outcome)).toThrow("(at commit)");
  });

  it("is a lost race when a guard did not hold, with null for what was not run", () => {
    const outcome = readOutcome(operations, [{ error: "timed out" }, null]);
    expect(lostRace(operations, outcome)).toBe(true);
  });

  it("is no lost race when the commit failed for the disk", () => {
    const outcome = readOutcome(operations, [{}, {}, { error: "I/O error" }]);
    expect(lostRace(operations, outcome)).toBe(false);
  });

  it.each([[undefined], [null], [{}], [[]], [[{}]], [[{}, null]], [[{}, 7]], [[{ rows: 1 }, {}]]])(
    "is refused when it is %j",
    (answer) => {
      expect(() => readOutcome(operations, answer)).toThrow(Failure);
    },
  );

  it("is read or refused with a Failure, whatever it is", () => {
    fc.assert(
      fc.property(fc.oneof(fc.anything(), fc.array(fc.jsonValue())), (answer) => {
        try {
          readOutcome(operations, answer);
        } catch (error) {
          expect(error).toBeInstanceOf(Failure);
        }
      }),
    );
  });
});
