import { describe, expect, it } from "vitest";
import { isConfirmed, type Look, planSighting, type Sighting } from "./sightings.ts";

const gone: Look = { finding: "deleted", version: "u/1", holders: [] };

/** What is confirmed after each of these looks, a minute apart. */
function verdicts(...looks: readonly (Look | undefined)[]): readonly boolean[] {
  let sighting: Sighting | undefined;
  return looks.map((look, index) => {
    sighting = planSighting(sighting, look, index * 60_000);
    return isConfirmed(sighting, 60_000, index * 60_000);
  });
}

describe("something that is gone", () => {
  it("is so at the second look", () => {
    expect(verdicts(gone, gone)).toEqual([false, true]);
  });

  it("is not so at two looks that are too close", () => {
    const first = planSighting(undefined, gone, 0);
    expect(isConfirmed(planSighting(first, gone, 59_999), 60_000, 59_999)).toBe(false);
  });

  it.each([
    ["failed, or found it in use", undefined],
    ["found another reason", { ...gone, finding: "another node has its name" }],
    ["found that it was changed", { ...gone, version: "u/2" }],
    ["found a pod", { ...gone, holders: ["p"] }],
  ])("is looked at from the start after a look that %s", (_, other) => {
    expect(verdicts(gone, other, gone)).toEqual([false, false, false]);
    expect(verdicts(gone, other, gone, gone)).toEqual([false, false, false, true]);
  });

  it("has no pod at either look, also not one that came later", () => {
    const holders = (...pods: string[]) => ({ ...gone, holders: pods });
    expect(verdicts(holders("a"), holders("b"), holders("b"))).toEqual([false, false, false]);
    expect(verdicts(holders("a"), gone, gone)).toEqual([false, false, true]);
  });

  it("waits for the pods of the first look where later ones are those of another node of the same name", () => {
    const look = (...holders: string[]) => ({ ...gone, holders, isReplaced: true });
    expect(verdicts(look("old"), look("old", "new"), look("new"), look("new"))).toEqual([
      ...[false, false, false, true],
    ]);
    expect(verdicts(look(), look("new"))).toEqual([false, true]);
  });

  it("has no pod of its own where another node of its name comes after a look that found no pod", () => {
    const replaced = { ...gone, finding: "another node has its name", isReplaced: true };
    const looks = [replaced, replaced].map((look) => ({ ...look, holders: ["new"] }));
    expect(verdicts(gone, ...looks)).toEqual([false, false, true]);
    expect(verdicts({ ...gone, holders: ["new"] }, ...looks)).toEqual([false, false, false]);
    // It was changed in between: its agent lives.
    const changed = looks.map((look) => ({ ...look, version: "u/2" }));
    expect(verdicts(gone, ...changed)).toEqual([false, false, false]);
  });
});
