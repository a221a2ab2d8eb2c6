import { expect, it } from "vitest";
import { whenAborted } from "./when-aborted.ts";

it("calls once when the signal fires, and at once where it has fired", () => {
  const ending = new AbortController();
  let calls = 0;
  whenAborted(ending.signal, () => calls++);
  expect(calls).toBe(0);
  ending.abort();
  expect(calls).toBe(1);
  whenAborted(ending.signal, () => calls++);
  expect(calls).toBe(2);
});
