import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { silentLogger } from "../logging/logger.ts";
import { systemClock } from "../sync/clock.ts";
import { RegistrationKeeper } from "./registration-keeper.ts";

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "kvu-keeper-"));
});
afterEach(() => rm(directory, { recursive: true }));

it("registers again where kubelet never asked for the list", async () => {
  const [ownSocket, kubeletSocket] = [join(directory, "own.sock"), join(directory, "kubelet.sock")];
  await writeFile(kubeletSocket, "");
  let laterMs = 0;
  const keeper = new RegistrationKeeper({
    ...{ resource: "vhostuser/sockets", ownSocket, kubeletSocket, logger: silentLogger },
    listen: async () => {
      await writeFile(ownSocket, "");
      return { close: () => rm(ownSocket) };
    },
    register: async () => undefined,
    openStreams: () => 0,
    clock: { ...systemClock, monotonic: () => systemClock.monotonic() + laterMs },
    pollMs: 60_000,
  });
  try {
    await expect.poll(() => keeper.registrations).toBe(1);
    keeper.check();
    laterMs = 10_001;
    keeper.check();
    await expect.poll(() => keeper.registrations).toBe(2);
  } finally {
    await keeper.close();
  }
});
