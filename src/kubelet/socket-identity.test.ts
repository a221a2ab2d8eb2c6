import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { systemClock } from "../sync/clock.ts";
import { socketIdentity } from "./socket-identity.ts";

let directory: string;
const servers: Server[] = [];

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "restart-"));
});

afterEach(async () => {
  for (const server of servers.splice(0)) server.close();
  await rm(directory, { recursive: true, force: true });
});

async function listen(name: string): Promise<string> {
  const path = join(directory, name);
  await new Promise<void>((resolve) => servers.push(createServer().listen(path, resolve)));
  return path;
}

describe("a socket's identity", () => {
  it("differs for every socket that replaces another, though inode numbers are reused", async () => {
    const seen = new Set<string | undefined>();
    for (let round = 0; round < 20; round++) {
      const path = await listen("kubelet.sock");
      seen.add(await socketIdentity(path));
      expect(await socketIdentity(path)).toBe([...seen].at(-1));
      await rm(path);
      // The clock of file times has a coarse tick, and no kubelet restarts within one.
      await systemClock.sleep(15);
    }
    expect(seen.size).toBe(20);
  });

  it("is undefined where no socket exists, also below a plain file", async () => {
    await writeFile(join(directory, "file"), "");
    expect(await socketIdentity(join(directory, "none.sock"))).toBeUndefined();
    expect(await socketIdentity(join(directory, "file/none.sock"))).toBeUndefined();
  });
});
