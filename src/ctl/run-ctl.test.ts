import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { waitUntil } from "../../test/machine/wait-until.ts";
import { nodeStatus, tracedInterface } from "../../test/stand-in/records/traced-interface.ts";
import { silentLogger } from "../logging/logger.ts";
import { type HttpServer, serveHttp } from "../observe/http-server.ts";
import type { NodeStatus, TracedInterface } from "../status/shape.ts";
import { COMMANDS, type CommandName, declared } from "./commands.ts";
import { completionScript } from "./help/completion.ts";
import { runCtl } from "./run-ctl.ts";

let directory: string;
let socketPath: string;
let daemon: HttpServer;
let status: NodeStatus;
let interfaces: readonly TracedInterface[];

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "kvu-ctl-"));
  socketPath = join(directory, "status.sock");
  status = nodeStatus();
  interfaces = [tracedInterface()];
  daemon = await serveDaemon();
});
afterEach(async () => {
  await daemon.close();
  await rm(directory, { recursive: true });
});

function serveDaemon(): Promise<HttpServer> {
  const json = (body: unknown) => ({
    status: 200,
    contentType: "application/json",
    body: JSON.stringify(body),
  });
  return serveHttp({
    socketPath,
    logger: silentLogger,
    pages: new Map([
      ["/v1/node", async () => json(status)],
      [
        "/v1/trace",
        async (query: URLSearchParams) =>
          json({
            node: "worker-1",
            at: 0,
            interfaces: interfaces.filter(({ pod }) => pod.name === query.get("pod")),
          }),
      ],
    ]),
  });
}

async function ctl(...args: readonly string[]) {
  let stdout = "";
  let stderr = "";
  const code = await runCtl({
    args,
    screen: {
      columns: 80,
      colour: false,
      interactive: false,
      write: (text) => {
        stdout += text;
      },
    },
    complain: (text) => {
      stderr += text;
    },
    node: "worker-1",
    version: "0.1.0",
    signal: AbortSignal.timeout(30_000),
    host: { proc: "/proc", sys: "/sys", kernel: "6.1.0", uid: 0, run: async () => "" },
  });
  return { code, stdout, stderr };
}
const onSocket = (...args: readonly string[]) => ctl(...args, "--socket", socketPath);

describe("the command line", () => {
  it.each([
    [["frobnicate"], 'there is no command "frobnicate"'],
    [["status", "extra"], "status takes no argument"],
    [["trace"], "trace takes one argument, [NAMESPACE/]POD"],
    [["trace", "a", "b"], "trace takes one argument"],
    [["trace", "a/b/c"], "write POD or NAMESPACE/POD"],
    [["status", "--nonsense"], "--nonsense"],
    [["completion", "tcsh"], '"tcsh" is none of bash, zsh, fish'],
    [["top", "--interval", "never"], 'an interval of "never" is none'],
    [["status", "--socket", "/nowhere/status.sock"], "the daemon does not run on this node"],
    [["status", "--config", "/nowhere.yaml"], "the configuration file cannot be read"],
  ])("%j ends with 2 and says what is wrong in one line", async (args, text) => {
    const { code, stdout, stderr } = await ctl(...args);
    expect([code, stdout]).toEqual([2, ""]);
    expect(stderr).toContain(text);
    expect(stderr.trimEnd().split("\n")).toHaveLength(1);
  });

  it("without a command says what there is, and that something was missing", async () => {
    const { code, stderr } = await ctl();
    expect(code).toBe(2);
    for (const name of Object.keys(COMMANDS)) expect(stderr).toContain(`  ${name}`);
  });

  it.each(Object.keys(COMMANDS) as CommandName[])(
    "tells every option of %s within 80 columns",
    async (name) => {
      for (const args of [
        [name, "--help"],
        ["help", name],
      ]) {
        const { code, stdout } = await ctl(...args);
        expect(code).toBe(0);
        for (const option of Object.keys(declared(name).options)) expect(stdout).toContain(`--${option}`);
        expect(stdout.split("\n").filter((line) => line.length > 80)).toEqual([]);
      }
    },
  );

  it("tells its release", async () => {
    expect((await ctl("--version")).stdout).toBe("vhostuserctl 0.1.0\n");
  });

  it("finds the socket by the daemon's configuration", async () => {
    const file = join(directory, "config.json");
    const pool = { name: "p", capacity: 1, dataplane: { type: "vpp", bridge: "1" } };
    // The status is beside the CNI socket.
    await writeFile(file, JSON.stringify({ cniSocket: join(directory, "cni.sock"), pools: [pool] }));
    expect((await ctl("status", "--config", file)).code).toBe(0);
  });

  it("says so where the answer is of a daemon that it does not know", async () => {
    status = { node: 7 } as never;
    const { code, stderr } = await onSocket("status");
    expect(code).toBe(2);
    expect(stderr).toContain("the daemon's answer is not what this program expects: node");
  });
});

describe("exit codes and JSON", () => {
  it("status: 0 for a healthy node, 1 for one with a problem, which JSON lists", async () => {
    expect((await onSocket("status")).code).toBe(0);
    status = nodeStatus({ resources: [{ name: "vhostuser/sockets", registered: false, registrations: 0 }] });
    const { code, stdout } = await onSocket("status", "--json");
    expect(code).toBe(1);
    expect(JSON.parse(stdout)).toMatchObject({ node: "worker-1", problems: [{ what: expect.any(String) }] });
  });

  it("trace: 0 for a whole chain, 1 for a broken one, which JSON names", async () => {
    const pod = "shop/virt-launcher-web-x7k2p";
    const whole = await onSocket("trace", pod, "--json");
    expect(whole.code).toBe(0);
    expect(JSON.parse(whole.stdout)).toMatchObject([{ broken: null, chain: { length: 10 } }]);
    interfaces = [tracedInterface({ state: "allocated" })];
    const broken = await onSocket("trace", pod, "--json");
    expect(broken.code).toBe(1);
    expect(JSON.parse(broken.stdout)).toMatchObject([{ broken: "record" }]);
  });

  it("trace takes the name of a VM for that of its pod, and one interface of several", async () => {
    expect((await onSocket("trace", "web")).stdout).toContain("shop/virt-launcher-web-x7k2p");
    expect((await onSocket("trace", "shop/web", "-i", "pod37a8eec1ce1")).code).toBe(0);
    const other = await onSocket("trace", "web", "-i", "net9");
    expect([other.code, other.stderr]).toEqual([2, expect.stringContaining("it has pod37a8eec1ce1")]);
    expect((await onSocket("trace", "virt-launcher-web")).code).toBe(2);
    expect((await onSocket("trace", "other/web")).code).toBe(2);
  });

  it("top prints one object for each reading", async () => {
    const { code, stdout } = await onSocket("top", "--once", "--json", "-n", "0.1");
    expect(code).toBe(0);
    expect(stdout.trimEnd().split("\n")).toHaveLength(1);
    expect(JSON.parse(stdout)).toMatchObject({ node: "worker-1", interfaces: [{ port: "vhu0123456789ab" }] });
  });
});

describe("top that goes on", () => {
  it("says that the daemon is away, shows the next table when it is back, and ends with the signal", async () => {
    const stop = new AbortController();
    const tables: string[] = [];
    const screen = {
      columns: 80,
      colour: false,
      interactive: true,
      write: (text: string) => void tables.push(text),
    };
    const seen = (part: string, after = 0) =>
      waitUntil(() => tables.slice(after).some((text) => text.includes(part)), {
        what: part,
        limitMs: 30_000,
      });
    const running = runCtl({
      ...{ args: ["top", "-n", "0.1", "--socket", socketPath], screen, complain: () => undefined, node: "n" },
      ...{ version: "0.1.0", signal: stop.signal },
      host: { proc: "/proc", sys: "/sys", kernel: "6.1.0", uid: 0, run: async () => "" },
    });
    await seen("\u001b[H\u001b[2Jnode worker-1");
    await daemon.close();
    await seen("the daemon does not run");
    daemon = await serveDaemon();
    await seen("node worker-1", tables.length);
    stop.abort();
    expect(await running).toBe(0);
  });
});

describe("completion", () => {
  /** What bash would offer, with the program played by a function. */
  async function offered(...words: readonly string[]): Promise<readonly string[]> {
    const script = [
      "vhostuserctl() { [ \"$*\" = 'completion pods' ] && echo shop/web-1 shop/db-1; }",
      completionScript("bash"),
      `COMP_WORDS=(${words.map((word) => `'${word}'`).join(" ")}); COMP_CWORD=${words.length - 1}`,
      // biome-ignore lint/suspicious/noTemplateCurlyInString: it is bash's
      '_vhostuserctl; printf "%s\\n" "${COMPREPLY[@]}"',
    ].join("\n");
    const { stdout } = await promisify(execFile)("bash", ["-c", script]);
    return stdout.split("\n").filter(Boolean);
  }

  it("offers commands, options, shells and this node's pods in a real bash", async () => {
    expect(await offered("vhostuserctl", "t")).toEqual(["trace", "top"]);
    expect(await offered("vhostuserctl", "top", "--i")).toEqual(["--interval"]);
    expect(await offered("vhostuserctl", "completion", "z")).toEqual(["zsh"]);
    expect(await offered("vhostuserctl", "trace", "shop/w")).toEqual(["shop/web-1"]);
    expect(await offered("vhostuserctl", "trace", "--j")).toEqual(["--json"]);
  });

  it.each(["bash", "zsh", "fish"] as const)("%s knows every command and option", (shell) => {
    const script = completionScript(shell);
    for (const name of Object.keys(COMMANDS) as CommandName[]) {
      expect(script).toContain(name);
      for (const option of Object.keys(declared(name).options)) {
        expect(script).toMatch(new RegExp(`(--|-l )${option}`));
      }
    }
  });

  it("lists the pods of the node", async () => {
    expect((await onSocket("completion", "pods")).stdout).toBe("shop/virt-launcher-web-x7k2p\n");
  });
});
