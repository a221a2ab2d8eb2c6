import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { systemClock } from "../sync/clock.ts";
import { lookAtSockets, type RestartWatch, socketIdentity, watchRestarts } from "./restart-watch.ts";

let directory: string;
const servers: Server[] = [];
const watches: RestartWatch[] = [];

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "restart-"));
});

afterEach(async () => {
  for (const watch of watches.splice(0)) await watch.close();
  for (const server of servers.splice(0)) server.close();
  await rm(directory, { recursive: true, force: true });
});

async function listen(name: string): Promise<string> {
  const path = join(directory, name);
  await new Promise<void>((resolve) => servers.push(createServer().listen(path, resolve)));
  return path;
}

describe("a socket's identity", () => {
  it("is another one for every socket that takes the place, though inode numbers are used again", async () => {
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

  it("is none where no socket lies, also below a plain file", async () => {
    await writeFile(join(directory, "file"), "");
    expect(await socketIdentity(join(directory, "none.sock"))).toBeUndefined();
    expect(await socketIdentity(join(directory, "file/none.sock"))).toBeUndefined();
  });

  it("tells own socket and kubelet's apart", async () => {
    const ownSocket = await listen("own.sock");
    const sight = await lookAtSockets({ ownSocket, kubeletSocket: join(directory, "kubelet.sock") });
    expect(sight).toEqual({ own: await socketIdentity(ownSocket), kubelet: undefined });
  });
});

describe("a restart watch", () => {
  function watch(pollMs: number): { readonly ready: Promise<void>; look: Promise<void> } {
    const looked = Promise.withResolvers<void>();
    const running = watchRestarts({
      directory,
      onLook: looked.resolve,
      onError: looked.reject,
      clock: systemClock,
      pollMs,
    });
    watches.push(running);
    return { ready: running.ready, look: looked.promise };
  }

  it("says to look when a socket appears", async () => {
    const { ready, look } = watch(3_600_000);
    await ready;
    await listen("kubelet.sock");
    await look;
  });

  it("says to look when a socket is deleted", async () => {
    const path = await listen("own.sock");
    const { ready, look } = watch(3_600_000);
    await ready;
    await rm(path);
    await look;
  });

  it("says to look now and then without any event", async () => {
    await watch(10).look;
  });
});
