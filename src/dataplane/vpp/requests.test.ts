import { expect, it } from "vitest";
import { allDone } from "./requests.ts";

it("fails with what the first threw, and not before the last has ended", async () => {
  const slow = Promise.withResolvers<void>();
  let ended = false;
  const all = allDone([
    slow.promise,
    undefined,
    Promise.reject(new Error("first")),
    Promise.reject(new Error("second")),
  ]);
  const over = all.catch((error: Error) => {
    ended = true;
    return error.message;
  });
  await new Promise((resolve) => setImmediate(resolve));
  expect(ended).toBe(false);
  slow.resolve();
  expect(await over).toBe("first");
});
