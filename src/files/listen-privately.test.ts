import { lstatSync, type Stats } from "node:fs";
import { mkdir, mkdtemp, readdir, rm, stat, writeFile } from "node:fs/promises";
import { connect, createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { listenPrivately } from "./listen-privately.ts";

let directory: string;
let path: string;
let server: Server;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "kvu-private-"));
  path = join(directory, "run", "x.sock");
  server = createServer((socket) => socket.end("here"));
});
afterEach(async () => {
  await new Promise((resolve) => server.close(resolve));
  await rm(directory, { recursive: true });
});

function ask(): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(path).on("error", reject);
    socket.on("data", (data) => resolve(data.toString()));
  });
}

/** What is at a server's path when it has just been bound, and the directory it is in. */
function whenBound(): Promise<readonly [socket: Stats, directory: Stats]> {
  return new Promise((resolve) => {
    server.once("listening", () => {
      const at = String(server.address());
      resolve([lstatSync(at), lstatSync(dirname(at))]);
    });
  });
}

describe("a private socket", () => {
  it("cannot be reached by others from the start, whatever the umask", async () => {
    await mkdir(dirname(path), { mode: 0o755 });
    const before = process.umask(0);
    try {
      const bound = whenBound();
      await listenPrivately(server, path);
      const [socket, own] = await bound;
      expect([socket.isSocket(), own.mode & 0o777]).toEqual([true, 0o700]);
    } finally {
      process.umask(before);
    }
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    expect(await readdir(dirname(path))).toEqual(["x.sock"]);
    expect(await ask()).toBe("here");
  });

  it("replaces a dead one, also one whose process was killed while making it", async () => {
    await mkdir(`${path}.d`, { recursive: true });
    await writeFile(join(`${path}.d`, "s"), "");
    await writeFile(path, "");
    await listenPrivately(server, path);
    expect(await ask()).toBe("here");
  });

  it("leaves nothing behind where it cannot be made", async () => {
    await mkdir(path, { recursive: true });
    await writeFile(join(path, "in the way"), "");
    await expect(listenPrivately(server, path)).rejects.toThrow();
    expect(await readdir(dirname(path))).toEqual(["x.sock"]);
    expect(server.listening).toBe(false);
  });
});
