import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { parse } from "yaml";
import { nodeStatus, tracedInterface } from "../../test/stand-in/records/traced-interface.ts";
import { silentLogger } from "../logging/logger.ts";
import { type HttpServer, serveHttp } from "../observe/http-server.ts";
import type { NodeStatus, TracedInterface } from "../status/shape.ts";
import { runCtl } from "./run-ctl.ts";

const COMMANDS = ["status", "trace", "doctor", "claim-template", "ip", "cni-dra"] as const;

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
    ...{ socketPath, socketOption: "statusSocket" },
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
      write: (text) => {
        stdout += text;
      },
    },
    complain: (text) => {
      stderr += text;
    },
    node: "worker-1",
    version: "0.1.0",
    host: { proc: "/proc", sys: "/sys", kernel: "6.1.0", uid: 0, run: async () => "" },
  });
  return { code, stdout, stderr };
}
const onSocket = (...args: readonly string[]) => ctl(...args, "--socket", socketPath);

describe("the command line", () => {
  it.each([
    [["frobnicate"], "unknown command 'frobnicate'"],
    [["statsu"], "Did you mean status?"],
    [["status", "extra"], "too many arguments for 'status'"],
    [["trace"], "missing required argument '[namespace/]pod'"],
    [["trace", "a", "b"], "too many arguments for 'trace'"],
    [["trace", "a/b/c"], "write POD or NAMESPACE/POD"],
    [["status", "--nonsense"], "--nonsense"],
    [["--jsn", "status"], "Did you mean --json?"],
    [["status", "-o", "xml"], "Allowed choices are json, yaml, wide"],
    [["status", "--socket", "/nowhere/status.sock"], "the daemon does not run on this node"],
    [["claim-template", "/nowhere.yaml"], "no such file"],
    [["status", "--config", "/nowhere.yaml"], "the configuration file cannot be read"],
  ])("%j ends with 2 and says what is wrong in its first line", async (args, text) => {
    const { code, stdout, stderr } = await ctl(...args);
    expect([code, stdout]).toEqual([2, ""]);
    expect(stderr.split("\n")[0]).toContain(text);
  });

  it("without a command prints the commands, and ends with 2", async () => {
    const { code, stderr } = await ctl();
    expect(code).toBe(2);
    for (const name of COMMANDS) expect(stderr).toContain(`  ${name} `);
  });

  it.each(COMMANDS)("documents every option of %s within 80 columns", async (name) => {
    for (const args of [
      [name, "--help"],
      ["help", name],
    ]) {
      const { code, stdout } = await ctl(...args);
      expect(code).toBe(0);
      for (const option of ["--output", "--namespace", "--socket", "--config", "--agent-socket"])
        expect(stdout).toContain(option);
      expect(stdout.split("\n").filter((line) => line.length > 80)).toEqual([]);
    }
  });

  it("prints its release", async () => {
    expect((await ctl("--version")).stdout).toBe("vhostuserctl 0.1.0\n");
  });

  it("finds the socket by the daemon's configuration", async () => {
    const file = join(directory, "config.json");
    const pools = { p: { capacity: 1, dataplane: { type: "vpp", bridge: "1" } } };
    // The status is beside the CNI socket.
    await writeFile(file, JSON.stringify({ cniSocket: join(directory, "cni.sock"), pools }));
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

  it("options stand before or after the command, and JSON and YAML say the same", async () => {
    const printed = await Promise.all([
      onSocket("status", "-o", "json"),
      onSocket("-o", "json", "status"),
      onSocket("status", "--json"),
    ]);
    expect(new Set(printed.map(({ stdout }) => stdout)).size).toBe(1);
    const yaml = await onSocket("status", "-o", "yaml");
    expect(parse(yaml.stdout)).toEqual(JSON.parse(printed[0]?.stdout ?? ""));
  });

  it("modes are printed in octal, times in ISO 8601", async () => {
    const { stdout } = await onSocket("trace", "web", "-o", "json");
    const [one] = JSON.parse(stdout);
    expect(one).toMatchObject({
      createdAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/),
      ownership: { mode: "2770" },
    });
  });

  it("-n chooses the pods of a namespace", async () => {
    expect((await onSocket("status", "-n", "shop")).stdout).toContain("virt-launcher-web-x7k2p");
    expect((await onSocket("status", "-n", "other")).stdout).not.toContain("virt-launcher-web-x7k2p");
    expect((await onSocket("-n", "shop", "trace", "web")).code).toBe(0);
    expect((await onSocket("trace", "web", "-n", "other")).code).toBe(2);
  });

  it("wide shows network, MAC and socket, and cuts nothing", async () => {
    status = nodeStatus({ pools: nodeStatus().pools.map((pool) => ({ ...pool, bridge: "b".repeat(90) })) });
    const { stdout } = await onSocket("status", "-o", "wide");
    expect(stdout).toContain("b".repeat(90));
    expect(stdout).toMatch(/NETWORK +MAC +SOCKET\n.* 02:[0-9a-f:]{14} +\/var\/run\/\S+\.sock\n/);
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
    const { stdout } = await onSocket("trace", pod);
    expect(stdout).toMatch(/^ {2}cause: \S/m);
    expect(stdout.split("\n").filter((line) => line.length > 80)).toEqual([]);
  });

  it("trace accepts the name of a VM for that of its pod, and one interface of several", async () => {
    expect((await onSocket("trace", "web")).stdout).toContain("shop/virt-launcher-web-x7k2p");
    expect((await onSocket("trace", "shop/web", "-i", "pod37a8eec1ce1")).code).toBe(0);
    const other = await onSocket("trace", "web", "-i", "net9");
    expect([other.code, other.stderr]).toEqual([2, expect.stringContaining("it has pod37a8eec1ce1")]);
    expect((await onSocket("trace", "virt-launcher-web")).code).toBe(2);
    expect((await onSocket("trace", "other/web")).code).toBe(2);
  });
});
