import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type LabRun, openLabRun } from "../machine/lab-run.ts";
import { buildClockSkew, SkewedClock } from "../soak/skewed-clock.ts";

let run: LabRun;
beforeAll(async () => {
  run = await openLabRun();
  await buildClockSkew(run);
});
afterAll(() => run?.close());

it("a clock is an hour back, ahead and right again within one life of its process", async () => {
  const clock = await SkewedClock.create(run, "a");
  const [command = "", ...prefix] = clock.prefix;
  const program = 'process.stdin.on("data", () => console.log(Date.now()))';
  const child = spawn(command, [...prefix, process.execPath, "-e", program], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const lines = createInterface(child.stdout);
  try {
    const hours: number[] = [];
    for (const seconds of [0, -3_600, 3_600, 0]) {
      clock.skew(seconds);
      child.stdin.write("?");
      const [line] = (await once(lines, "line")) as [string];
      hours.push(Math.round((Number(line) - Date.now()) / 3_600_000) + 0);
    }
    expect(hours).toEqual([0, -1, 1, 0]);
  } finally {
    child.stdin.end();
    await once(child, "exit");
  }
});
