import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { ShimRig } from "../shim/shim-rig.ts";
import { shimDelegateContract } from "./shim-delegate.ts";
import { type BuildShim, buildShims, type ShimUnderTest } from "./shim-under-test.ts";

const TRY_AGAIN = 11;
const IO_FAILURE = 5;
const MIB = 1024 * 1024;

/** What the CNI executable of every processor, and its sanitised build, must do (src/cni/shim/PROTOCOL.md). */
export function shimContract(title: string, build: BuildShim): void {
  describe(`the contract of the CNI executable: ${title}`, () => {
    let built: string;
    let shim: ShimUnderTest;
    let rig: ShimRig;

    beforeAll(async () => {
      built = await mkdtemp(join(tmpdir(), "kvu-shim-built-"));
      shim = await buildShims(built, build);
    }, 120_000);
    afterAll(() => rm(built, { recursive: true }));
    beforeEach(async () => {
      rig = await ShimRig.open(shim.usual);
    });
    afterEach(() => rig[Symbol.asyncDispose]());

    it("carries environment and stdin to the daemon and its answer back", async () => {
      const daemon = await rig.daemon((side) => side.answer(1, '{"code":7}\n'));
      const stdin = JSON.stringify({ cniVersion: "1.0.0", pad: "é".repeat(200_000) });
      const env = { CNI_IFNAME: "net1", CNI_ARGS: "A=b;C=d=e", SECRET: "kept" };
      expect(await rig.run({ verb: "ADD", stdin, env })).toMatchObject({ code: 1, stdout: '{"code":7}\n' });
      const [request] = daemon.requests;
      expect(request?.env).toEqual({
        ...{ CNI_COMMAND: "ADD", CNI_IFNAME: "net1", CNI_ARGS: "A=b;C=d=e", CNI_PATH: rig.plugins },
      });
      expect(request?.stdin.toString()).toBe(stdin);
    });

    it("accepts an answer that comes in single bytes", async () => {
      await rig.daemon(async ({ socket }) => {
        for (const byte of Buffer.from('0 10\n{"a":"é"}')) {
          await new Promise((resolve) => socket.write(Buffer.of(byte), resolve));
        }
        socket.end();
      });
      expect((await rig.run({ verb: "ADD" })).stdout).toBe('{"a":"é"}');
    });

    it("carries 1 MiB in and 1 MiB out", async () => {
      const daemon = await rig.daemon((side) => side.answer(0, Buffer.alloc(MIB, 0x20)));
      const ended = await rig.run({ verb: "ADD", stdin: Buffer.alloc(MIB, 0x20) });
      expect(ended.stdout.length).toBe(MIB);
      expect(daemon.requests[0]?.stdin.length).toBe(MIB);
    });

    it("answers VERSION alone, with the caller's version", async () => {
      const ended = await rig.run({ verb: "VERSION", stdin: '{ "cniVersion" : "0.4.0" }' });
      expect(ended.code).toBe(0);
      expect(JSON.parse(ended.stdout)).toEqual({
        cniVersion: "0.4.0",
        supportedVersions: ["0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"],
      });
    });

    it.each(["", "{", '{"cniVersion":"1.0\\" ,\\"x"}', '{"cniVersion":12}', '"cniVersion":"', "\0\0"])(
      "prints valid JSON for VERSION with stdin %j",
      async (stdin) => {
        const ended = await rig.run({ verb: "VERSION", stdin });
        expect(JSON.parse(ended.stdout)).toMatchObject({ cniVersion: "1.1.0" });
      },
    );

    describe("the caller's input", () => {
      it.each([
        ["stdin of more than 1 MiB", { stdin: Buffer.alloc(MIB + 1, 0x20) }],
        ["an environment of more than 64 KiB", { env: { CNI_ARGS: "a".repeat(65_536) } }],
        ["no stdin at all", { shell: 'exec "$@" <&-' }],
      ])("is refused when it is %s", async (_name, call) => {
        const ended = await rig.run({ verb: "ADD", ...call });
        expect(ended.code).toBe(1);
        expect(JSON.parse(ended.stdout)).toMatchObject({ code: IO_FAILURE });
      });

      it("is refused when stdin is never closed", async () => {
        const ended = await rig.run({ verb: "ADD", stdin: undefined, command: shim.strict });
        expect(JSON.parse(ended.stdout)).toMatchObject({ code: IO_FAILURE });
      });

      it("is enough for DEL without stdin", async () => {
        const daemon = await rig.daemon((side) => side.answer(0, ""));
        expect(await rig.run({ verb: "DEL", shell: 'exec "$@" <&-' })).toMatchObject({ code: 0, stdout: "" });
        expect(daemon.requests[0]?.stdin.length).toBe(0);
      });

      it("is served without stdin, stdout and stderr, and the connection does not take their descriptors", async () => {
        const daemon = await rig.daemon((side) => side.answer(0, ""));
        const ended = await rig.run({ verb: "DEL", shell: 'exec "$@" <&- >&- 2>&-' });
        expect(ended.code).toBe(0);
        expect(daemon.requests[0]?.header).toMatch(/ 0$/);
      });

      it("learns of a lost answer from the exit code, not from a signal", async () => {
        await rig.daemon((side) => side.answer(0, "{}\n"));
        expect(await rig.run({ verb: "ADD", shell: 'exec "$@" >&-' })).toMatchObject({
          code: 1,
          signal: null,
        });
      });
    });

    describe("without an answer", () => {
      it("ADD may be retried, DEL succeeds, STATUS says not available", async () => {
        const [add, del, status] = await Promise.all([
          rig.run({ verb: "ADD", stdin: '{"cniVersion":"0.3.1"}' }),
          rig.run({ verb: "DEL" }),
          rig.run({ verb: "STATUS" }),
        ]);
        expect(add.code).toBe(1);
        expect(JSON.parse(add.stdout)).toMatchObject({ cniVersion: "0.3.1", code: TRY_AGAIN });
        expect(del).toMatchObject({ code: 0, stdout: "" });
        expect(JSON.parse(status.stdout)).toMatchObject({ code: 50 });
      });

      it("waits for a daemon that is being started", async () => {
        const ended = rig.run({ verb: "ADD", command: shim.lenient });
        await rig.daemon((side) => side.answer(0, "{}\n"));
        expect(await ended).toMatchObject({ code: 0, stdout: "{}\n" });
      });

      it("gives up on a silent daemon", async () => {
        await rig.daemon(() => undefined);
        const [add, del] = await Promise.all([
          rig.run({ verb: "ADD", command: shim.hasty }),
          rig.run({ verb: "DEL", command: shim.hasty }),
        ]);
        expect(JSON.parse(add.stdout)).toMatchObject({ code: TRY_AGAIN });
        expect(del).toMatchObject({ code: 0, stdout: "" });
      });

      it.each([
        ["another protocol", "HTTP/1.1 400 Bad Request\r\n\r\n"],
        ["an endless first line", "0".repeat(200)],
        ["a body over the bound", "0 1048577\n"],
        ["a size that no number holds", `0 ${"9".repeat(30)}\n`],
        ["a negative size", "0 -5\n"],
        ["an exit code of 2", "2 0\n"],
        ["a type over the bound", "delegate 256 0 0\n"],
        ["an environment over the bound", "delegate 1 65537 0\n"],
        ["a delegate's stdin over the bound", "delegate 1 0 1048577\n"],
        ["a delegation without sizes", "delegate \n"],
        ["a variable that is not CNI's", "delegate 1 4 0\nxA=b\0"],
        ["an environment that is not closed", "delegate 1 6 0\nxCNI_A="],
        ["a variable without a value", "delegate 1 6 0\nxCNI_A\0"],
      ])("does not retry what is answered with %s", async (_name, bytes) => {
        const daemon = await rig.daemon(({ socket }) => socket.write(bytes));
        const add = await rig.run({ verb: "ADD" });
        expect(add.code).toBe(1);
        expect(JSON.parse(add.stdout)).toMatchObject({ code: TRY_AGAIN });
        expect(await rig.run({ verb: "DEL" })).toMatchObject({ code: 0, stdout: "" });
        expect(daemon.requests.length).toBe(2);
      });

      it("ends by SIGTERM like any program", async () => {
        const asked = Promise.withResolvers<void>();
        await rig.daemon(() => asked.resolve());
        const running = rig.start({ verb: "ADD" });
        await asked.promise;
        running.process.kill("SIGTERM");
        expect(await running.ended).toMatchObject({ signal: "SIGTERM", stdout: "" });
      });
    });

    describe("a connection that breaks", () => {
      const breaks = [
        ["before anything", ""],
        ["in the header", "0 1"],
        ["in the body", "0 100\n{"],
        ["in a delegation", "delegate 5 0 7\nipam"],
      ] as const;

      it.each(breaks)("%s is followed by a retry of the same request", async (_name, bytes) => {
        const daemon = await rig.daemon((side, connection) =>
          connection === 1 ? side.socket.end(bytes) : side.answer(0, '{"whole":1}\n'),
        );
        const ended = await rig.run({ verb: "ADD", stdin: '{"name":"n"}' });
        expect(ended).toMatchObject({ code: 0, stdout: '{"whole":1}\n' });
        const [first, second] = daemon.requests;
        expect(second).toEqual(first);
        expect(daemon.requests.length).toBe(2);
      });

      it("does not fail a call while another daemon takes over the socket", async () => {
        const broken = Promise.withResolvers<void>();
        const old = await rig.daemon(() => broken.resolve());
        const ended = rig.run({ verb: "ADD", command: shim.lenient });
        await broken.promise;
        await old.close();
        await rig.daemon((side) => side.answer(0, '{"new":1}\n'));
        expect((await ended).stdout).toBe('{"new":1}\n');
      });

      it.each(breaks)("%s fails the call at the third time", async (_name, bytes) => {
        const daemon = await rig.daemon(({ socket }) => socket.end(bytes));
        const [add, del] = await Promise.all([rig.run({ verb: "ADD" }), rig.run({ verb: "DEL" })]);
        expect(JSON.parse(add.stdout)).toMatchObject({ code: TRY_AGAIN });
        expect(del).toMatchObject({ code: 0, stdout: "" });
        expect(daemon.requests.length).toBe(6);
      });

      it("while the request is sent is retried as well", async () => {
        let connections = 0;
        const server = createServer((socket) => {
          socket.on("error", () => undefined);
          if (++connections < 3) return void socket.destroy();
          return void socket.resume().end("0 3\n{}\n");
        }).listen(rig.socketPath);
        const ended = await rig.run({ verb: "ADD", stdin: Buffer.alloc(MIB, 0x20) });
        expect(ended).toMatchObject({ code: 0, stdout: "{}\n" });
        expect(connections).toBe(3);
        await new Promise((resolve) => server.close(resolve));
      });
    });

    shimDelegateContract({ rig: () => rig, shim: () => shim });
  });
}
