import { existsSync } from "node:fs";
import { chmod, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { identifyProcess } from "../machine/process-table.ts";
import { runProgram } from "../machine/run-program.ts";
import { waitUntil } from "../machine/wait-until.ts";
import type { WireDelegateEnd } from "../shim/scripted-daemon.ts";
import type { ShimRig } from "../shim/shim-rig.ts";
import type { ShimUnderTest } from "./shim-under-test.ts";

const MIB = 1024 * 1024;
const LIMIT_MS = 40_000;

/** The part of the contract that is about delegations. */
export function shimDelegateContract(under: { rig: () => ShimRig; shim: () => ShimUnderTest }): void {
  describe("a delegate", () => {
    /** Runs one delegation in an ADD that then succeeds. */
    async function delegated(
      call: Parameters<import("../shim/scripted-daemon.ts").DaemonSide["delegate"]>[0],
      more: { env?: Record<string, string>; strict?: boolean } = {},
    ): Promise<{ end: WireDelegateEnd | undefined; stderr: string; code: number | null }> {
      let end: WireDelegateEnd | undefined;
      await under.rig().daemon(async (side) => {
        end = await side.delegate(call);
        side.answer(0, "{}\n");
      });
      const command = more.strict === true ? { command: under.shim().strict } : {};
      const { stderr, code } = await under.rig().run({ verb: "ADD", env: more.env ?? {}, ...command });
      return { end, stderr, code };
    }

    it("gets its stdin and its variables, and its stdout and exit code go back", async () => {
      await under.rig().plugin("ipam", "env | grep -E '^(CNI_|KEPT)' | sort; cat; echo word >&2; exit 3");
      const env = { KEPT: "yes", CNI_NETNS: "/gone", CNI_ARGS: "a=b" };
      const call = { type: "ipam", env: { CNI_COMMAND: "DEL", CNI_X: "1=2" }, stdin: '{"é":1}' };
      const { end, stderr, code } = await delegated(call, { env });
      expect(end?.stdout.toString()).toBe('CNI_COMMAND=DEL\nCNI_X=1=2\nKEPT=yes\n{"é":1}');
      expect(end?.exitCode).toBe(3);
      expect(stderr).toBe("word\n");
      expect(code).toBe(0);
    });

    it("may follow another, as often as the daemon wants", async () => {
      await under.rig().plugin("ipam", "cat");
      const words: string[] = [];
      await under.rig().daemon(async (side) => {
        for (const word of ["one", "two", "", "four"]) {
          words.push(String((await side.delegate({ type: "ipam", stdin: word }))?.stdout));
        }
        side.answer(0, "{}\n");
      });
      expect(await under.rig().run({ verb: "ADD" })).toMatchObject({ code: 0, stdout: "{}\n" });
      expect(words).toEqual(["one", "two", "", "four"]);
    });

    it("has the descriptors and signals of a program that is started by hand", async () => {
      const script = "exec 2>/dev/null; ls -1 /proc/self/fd; grep -E 'Sig(Ign|Blk|Cgt)' /proc/self/status";
      const path = await under.rig().plugin("ipam", script);
      const { end } = await delegated({ type: "ipam" });
      expect(end?.stdout.toString()).toBe((await runProgram(path, [])).stdout);
    });

    it("may read 1 MiB and write 1 MiB", async () => {
      await under.rig().plugin("ipam", "cat");
      const { end } = await delegated({ type: "ipam", stdin: Buffer.alloc(MIB, 0x61) });
      expect(end?.stdout.equals(Buffer.alloc(MIB, 0x61))).toBe(true);
    });

    it("need not read its stdin", async () => {
      await under.rig().plugin("ipam", "exec <&-; echo done");
      const { end } = await delegated({ type: "ipam", stdin: Buffer.alloc(MIB) });
      expect(end).toEqual({ exitCode: 0, stdout: Buffer.from("done\n") });
    });

    it("is complete when it ends, also when it leaves a process behind", async () => {
      await under
        .rig()
        .plugin("ipam", `sleep 1000 2>&- & echo $! > "${under.rig().directory}/left"; echo done`);
      const { end } = await delegated({ type: "ipam" });
      expect(end).toEqual({ exitCode: 0, stdout: Buffer.from("done\n") });
      process.kill(Number(await readFile(join(under.rig().directory, "left"), "utf8")), "SIGKILL");
    });

    it("is the first executable file of its name in the absolute directories of CNI_PATH", async () => {
      const rig = under.rig();
      const [a, b, c, d] = ["a", "b", "c", "d"].map((name) => join(rig.directory, name)) as [
        string,
        string,
        string,
        string,
      ];
      await mkdir(join(a, "ipam"), { recursive: true });
      await chmod(await rig.plugin("ipam", "echo b", b), 0o644);
      await rig.plugin("ipam", "echo c", c);
      await rig.plugin("ipam", "echo d", d);
      const relative = join("..", d);
      const path = ["", relative, ".", "/nowhere", a, b, c, d].join(":");
      const { end } = await delegated({ type: "ipam" }, { env: { CNI_PATH: path } });
      expect(end?.stdout.toString()).toBe("c\n");
    });

    it.each([
      "",
      ".",
      "..",
      "...",
      "a/b",
      "/bin/true",
      "../plugins/ipam",
      "ipam\0",
      "absent",
      "a".repeat(255),
    ])("named %j is not found", async (type) => {
      await under.rig().plugin("ipam", "echo never");
      const { end, code } = await delegated({ type });
      expect(end).toEqual({ exitCode: 127, stdout: Buffer.alloc(0) });
      expect(code).toBe(0);
    });

    it("is not found without a CNI_PATH", async () => {
      const { end } = await delegated({ type: "true" }, { env: { CNI_PATH: "" } });
      expect(end?.exitCode).toBe(127);
    });

    it("that no kernel can execute counts as not found", async () => {
      const path = join(under.rig().plugins, "ipam");
      await writeFile(path, "\x7fELF and nothing more", { mode: 0o755 });
      expect((await delegated({ type: "ipam" })).end?.exitCode).toBe(127);
    });

    it("that a signal ended is distinguished from one that exits", async () => {
      await under.rig().plugin("ipam", "echo word; kill -9 $$");
      expect((await delegated({ type: "ipam" })).end).toEqual({
        exitCode: 137,
        stdout: Buffer.from("word\n"),
      });
    });

    it("that writes more than 1 MiB is ended", async () => {
      await under.rig().plugin("ipam", "exec cat /dev/zero");
      expect((await delegated({ type: "ipam" })).end).toEqual({ exitCode: 126, stdout: Buffer.alloc(0) });
    });

    it("that writes one byte too many and ends is refused as well", async () => {
      await under.rig().plugin("ipam", "cat; echo");
      const { end } = await delegated({ type: "ipam", stdin: Buffer.alloc(MIB) });
      expect(end?.exitCode).toBe(126);
    });

    it.each([
      ["", ""],
      [" and does not listen to SIGTERM", "trap '' TERM; "],
    ])("that runs too long%s is ended", async (_name, trap) => {
      await under.rig().plugin("ipam", `${trap}sleep 1000; sleep 1000`);
      const { end } = await delegated({ type: "ipam" }, { strict: true });
      expect(end).toEqual({ exitCode: 124, stdout: Buffer.alloc(0) });
    });

    /** A plugin that says in a file that it runs, and what it has started. */
    async function lastingPlugin(): Promise<() => Promise<readonly number[]>> {
      const file = join(under.rig().directory, "pids");
      await under
        .rig()
        .plugin("ipam", `sleep 1000 & echo $$ $! > "${file}.new"; mv "${file}.new" "${file}"; wait`);
      return async () => {
        await waitUntil(() => existsSync(file), { what: "the delegate runs", limitMs: LIMIT_MS });
        return (await readFile(file, "utf8")).trim().split(" ").map(Number);
      };
    }

    async function expectGone(pids: readonly number[]): Promise<void> {
      expect(pids.length).toBe(2);
      await waitUntil(() => pids.every((pid) => identifyProcess(pid) === undefined), {
        what: `${pids} are gone`,
        limitMs: LIMIT_MS,
      });
    }

    it("ends with what it started when the daemon hangs up, and the request is repeated", async () => {
      const pids = await lastingPlugin();
      let seen: readonly number[] = [];
      const daemon = await under.rig().daemon(async (side, connection) => {
        if (connection === 2) return side.answer(0, '{"again":1}\n');
        void side.delegate({ type: "ipam" });
        seen = await pids();
        return side.socket.destroy();
      });
      expect(await under.rig().run({ verb: "ADD" })).toMatchObject({ code: 0, stdout: '{"again":1}\n' });
      expect(daemon.requests.length).toBe(2);
      await expectGone(seen);
    });

    it("is given the time to finish when the daemon hangs up", async () => {
      const { directory } = under.rig();
      await under
        .rig()
        .plugin("ipam", `touch "${directory}/runs"; sleep 0.1; echo whole > "${directory}/lease"`);
      await under.rig().daemon(async (side, connection) => {
        if (connection === 2) return side.answer(0, "{}\n");
        void side.delegate({ type: "ipam" });
        await waitUntil(() => existsSync(join(directory, "runs")), { what: "it runs", limitMs: LIMIT_MS });
        return side.socket.destroy();
      });
      const command = under.shim().lenient;
      expect(await under.rig().run({ verb: "ADD", command })).toMatchObject({ code: 0 });
      expect(await readFile(join(directory, "lease"), "utf8")).toBe("whole\n");
    });

    it("ends when the daemon answers without waiting for it, and the answer counts", async () => {
      const pids = await lastingPlugin();
      let seen: readonly number[] = [];
      const daemon = await under.rig().daemon(async (side) => {
        void side.delegate({ type: "ipam" });
        seen = await pids();
        side.answer(1, '{"code":11}\n');
      });
      expect(await under.rig().run({ verb: "ADD" })).toMatchObject({ code: 1, stdout: '{"code":11}\n' });
      expect(daemon.requests.length).toBe(1);
      await expectGone(seen);
    });

    it.each(["SIGTERM", "SIGINT", "SIGHUP"] as const)(
      "ends when the executable gets %s, which it then obeys",
      async (signal) => {
        const pids = await lastingPlugin();
        await under.rig().daemon((side) => side.delegate({ type: "ipam" }));
        const running = under.rig().start({ verb: "ADD" });
        const seen = await pids();
        running.process.kill(signal);
        expect(await running.ended).toMatchObject({ code: null, signal, stdout: "" });
        await expectGone(seen);
      },
    );

    it("ends when the executable is killed", async () => {
      const pids = await lastingPlugin();
      await under.rig().daemon((side) => side.delegate({ type: "ipam" }));
      const running = under.rig().start({ verb: "ADD" });
      const [plugin = 0, started = 0] = await pids();
      running.process.kill("SIGKILL");
      await waitUntil(() => identifyProcess(plugin) === undefined, {
        what: "the delegate is gone",
        limitMs: LIMIT_MS,
      });
      process.kill(started, "SIGKILL");
      expect((await running.ended).signal).toBe("SIGKILL");
    });
  });
}
