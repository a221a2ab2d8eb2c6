import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { compileShim } from "../../../scripts/build/compile-shim.ts";
import { silentLogger } from "../../logging/logger.ts";
import { type CniServer, serveCni } from "../server.ts";

let built: string;
let executable: string;
let directory: string;
let socketPath: string;
const closing: (() => Promise<void>)[] = [];

beforeAll(async () => {
  built = await mkdtemp(join(tmpdir(), "kvu-shim-built-"));
  executable = await compileShim(join(built, "kube-vhostuser"));
});
afterAll(() => rm(built, { recursive: true }));
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "kvu-shim-"));
  socketPath = join(directory, "cni.sock");
});
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
  await rm(directory, { recursive: true });
});

interface Ended {
  readonly code: number | null;
  readonly stdout: string;
}

async function run(
  command: string,
  stdin: string | Buffer,
  env: Record<string, string> = {},
): Promise<Ended> {
  const child: ChildProcess = spawn(executable, [], {
    env: { CNI_COMMAND: command, KUBE_VHOSTUSER_CNI_SOCKET: socketPath, ...env },
    stdio: ["pipe", "pipe", "inherit"],
  });
  let stdout = "";
  child.stdout?.on("data", (chunk: Buffer) => {
    stdout += chunk.toString();
  });
  child.stdin?.on("error", () => undefined);
  child.stdin?.end(stdin);
  const [code] = (await once(child, "close")) as [number | null];
  return { code, stdout };
}

/** A peer that does with the raw connection what the test wants. */
async function rawPeer(onConnection: (socket: Socket) => void): Promise<Server> {
  const server = createServer(onConnection);
  server.listen(socketPath);
  await once(server, "listening");
  closing.push(async () => {
    server.close();
  });
  return server;
}

describe("CNI executable", () => {
  it("carries environment and stdin to the daemon and its answer back", async () => {
    const seen: unknown[] = [];
    const server: CniServer = await serveCni({
      socketPath,
      logger: silentLogger,
      answer: async ({ env, stdin }) => {
        seen.push({ ...env }, stdin.toString());
        return { exitCode: 1, stdout: '{"code":7}\n' };
      },
    });
    closing.push(() => server.close());
    const stdin = JSON.stringify({ cniVersion: "1.0.0", pad: "é".repeat(200_000) });
    const ended = await run("ADD", stdin, { CNI_IFNAME: "net1", CNI_ARGS: "A=b;C=d=e", SECRET: "kept" });
    expect(ended).toEqual({ code: 1, stdout: '{"code":7}\n' });
    expect(seen).toEqual([{ CNI_COMMAND: "ADD", CNI_IFNAME: "net1", CNI_ARGS: "A=b;C=d=e" }, stdin]);
  });

  it("answers VERSION alone, with the caller's version", async () => {
    const ended = await run("VERSION", '{ "cniVersion" : "0.4.0" }');
    expect(ended.code).toBe(0);
    expect(JSON.parse(ended.stdout)).toEqual({
      cniVersion: "0.4.0",
      supportedVersions: ["0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"],
    });
  });

  it.each(["", "{", '{"cniVersion":"1.0\\" ,\\"x"}', '{"cniVersion":12}', '"cniVersion":"', "\0\0"])(
    "prints valid JSON for VERSION with stdin %j",
    async (stdin) => {
      expect(JSON.parse((await run("VERSION", stdin)).stdout)).toMatchObject({ cniVersion: "1.1.0" });
    },
  );

  it("without a daemon: ADD may be tried again, DEL succeeds, STATUS says not available", async () => {
    const [add, del, status] = await Promise.all([
      run("ADD", '{"cniVersion":"0.3.1"}'),
      run("DEL", "{}"),
      run("STATUS", "{}"),
    ]);
    expect(add.code).toBe(1);
    expect(JSON.parse(add.stdout)).toMatchObject({ cniVersion: "0.3.1", code: 11 });
    expect(del).toEqual({ code: 0, stdout: "" });
    expect(JSON.parse(status.stdout)).toMatchObject({ code: 50 });
  });

  it("waits for a daemon that is being restarted", async () => {
    const ended = run("ADD", "{}");
    const server = await serveCni({
      socketPath,
      logger: silentLogger,
      answer: async () => ({ exitCode: 0, stdout: "{}\n" }),
    });
    closing.push(() => server.close());
    expect(await ended).toEqual({ code: 0, stdout: "{}\n" });
  });

  it.each([
    ["nothing", ""],
    ["half a header", "0 1"],
    ["half a body", "0 100\n{"],
    ["a wrong header", "HTTP/1.1 400 Bad Request\r\n\r\n"],
    ["a body that is too large", "0 99999999\n"],
    ["a negative size", "0 -5\n"],
  ])("takes %s from the daemon for no answer", async (_name, bytes) => {
    await rawPeer((socket) => {
      socket.on("error", () => undefined);
      socket.once("data", () => socket.end(bytes));
    });
    const add = await run("ADD", "{}");
    expect(add.code).toBe(1);
    expect(JSON.parse(add.stdout)).toMatchObject({ code: 11 });
    expect(await run("DEL", "{}")).toEqual({ code: 0, stdout: "" });
  });

  it("refuses stdin of more than 1 MiB", async () => {
    const ended = await run("ADD", Buffer.alloc(1024 * 1024 + 1, 0x20));
    expect(JSON.parse(ended.stdout)).toMatchObject({ code: 5 });
  });
});
