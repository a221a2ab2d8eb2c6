import { mkdir, mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import type { NodeContext } from "../attachment/node-context.ts";
import { silentLogger } from "../logging/logger.ts";
import { SwitchSockets } from "./switch-sockets.ts";

let top: string;
let directory: string;
let made: number;
let naps: { readonly ms: number; readonly end: () => void }[];
let sockets: SwitchSockets;

beforeEach(async () => {
  top = await mkdtemp(join(tmpdir(), "kvu-made-"));
  directory = join(top, "switch");
  made = 0;
  naps = [];
  const ports = [
    { state: "attached", portName: "vhu-a" },
    { state: "attaching", portName: "vhu-b" },
  ];
  const context = {
    pools: { all: () => [{ config: { switchSockets: directory } }] },
    records: { ports: { list: () => ports } },
  } as unknown as NodeContext;
  sockets = new SwitchSockets({
    context,
    onMade: () => {
      made += 1;
    },
    clock: {
      now: () => 0,
      monotonic: () => 0,
      sleep: (ms) => {
        const { promise, resolve } = Promise.withResolvers<void>();
        naps.push({ ms, end: resolve });
        return promise;
      },
    },
    logger: silentLogger,
  });
});
afterEach(async () => {
  await sockets.close();
  await rm(top, { recursive: true });
});

/** Lets short naps go by until it has told so often; what chokidar reports late takes another one. */
const told = (times: number) =>
  expect
    .poll(() => {
      for (const { ms, end } of naps) if (ms === 500) end();
      return made;
    })
    .toBe(times);

it("tells of an attached port's socket that nobody moves, once in a while only", async () => {
  await sockets.follow(); // not there yet
  await mkdir(directory);
  await sockets.follow();
  await writeFile(join(directory, "vhu-a"), "");
  await expect.poll(() => naps.length).toBe(1);
  await rename(join(directory, "vhu-a"), join(top, "moved"));
  naps[0]?.end();
  await writeFile(join(directory, "vhu-b"), "");
  await expect.poll(() => naps.length).toBeGreaterThan(1);
  expect(made).toBe(0);
  await writeFile(join(directory, "vhu-a"), "");
  await told(1);
  await expect.poll(() => naps.at(-1)?.ms).toBe(5_000);
  await writeFile(join(directory, "vhu-a"), "again");
  expect(made).toBe(1);
  naps.at(-1)?.end();
  await told(2);
});

it("goes on with a directory that was made anew", async () => {
  await mkdir(directory);
  await sockets.follow();
  await rename(directory, join(top, "old"));
  await mkdir(directory);
  await sockets.follow();
  await writeFile(join(directory, "vhu-a"), "");
  await told(1);
});
