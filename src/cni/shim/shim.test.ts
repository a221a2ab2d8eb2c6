import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { compileShim } from "../../../scripts/build/compile-shim.ts";
import { ShimRig } from "../../../test/shim/shim-rig.ts";
import { silentLogger } from "../../logging/logger.ts";
import { monotonicMs } from "../../sync/clock.ts";
import { serveCni } from "../server.ts";

let built: string;
beforeAll(async () => {
  built = await mkdtemp(join(tmpdir(), "kvu-shim-built-"));
});
afterAll(() => rm(built, { recursive: true }));

describe("CNI executable and daemon", () => {
  it("agree on the protocol", async () => {
    const executable = await compileShim({ output: join(built, "shipped") });
    await using rig = await ShimRig.open({ executable });
    await rig.plugin("ipam", 'cat; echo ":$CNI_COMMAND"; exit 4');
    const seen: unknown[] = [];
    let begun = 0;
    const before = Math.floor(monotonicMs());
    const server = await serveCni({
      socketPath: rig.socketPath,
      logger: silentLogger,
      answer: async ({ startedAtMs, env, stdin, delegate }) => {
        begun = startedAtMs;
        seen.push(env["CNI_IFNAME"], stdin.toString());
        seen.push(await delegate?.({ type: "ipam", env: { CNI_COMMAND: "CHECK" }, stdin: Buffer.from("é") }));
        return { exitCode: 1, stdout: '{"code":7}\n' };
      },
    });
    const ended = await rig.run({ verb: "ADD", env: { CNI_IFNAME: "net1" }, stdin: "{}" });
    await server.close();
    expect(ended).toMatchObject({ code: 1, stdout: '{"code":7}\n' });
    expect(begun).toBeGreaterThanOrEqual(before);
    expect(begun).toBeLessThan(monotonicMs());
    expect(seen).toEqual(["net1", "{}", { exitCode: 4, stdout: "é:CHECK\n" }]);
  });

  it("do not wait for a plugin longer than the limit that the daemon sets", async () => {
    const executable = await compileShim({ output: join(built, "shipped") });
    await using rig = await ShimRig.open({ executable });
    await rig.plugin("ipam", "exec sleep 1000");
    let failure: unknown;
    const server = await serveCni({
      socketPath: rig.socketPath,
      logger: silentLogger,
      answer: async ({ delegate }) => {
        const call = { type: "ipam", env: { CNI_COMMAND: "DEL" }, stdin: Buffer.from("{}"), limitMs: 100 };
        await delegate?.(call).catch((error: unknown) => {
          failure = error;
        });
        return { exitCode: 0, stdout: "{}\n" };
      },
    });
    const ended = await rig.run({ verb: "ADD", stdin: "{}" });
    await server.close();
    expect(ended).toMatchObject({ code: 0, stdout: "{}\n" });
    expect(failure).toMatchObject({ code: "ipam-failed", message: expect.stringContaining("within 100 ms") });
  });
});

describe("the IPAM agent's executable", () => {
  const ipam = async () => compileShim({ executable: "kube-vhostuser-ipam", output: join(built, "ipam") });

  it("asks the IPAM agent's socket, and prints what is answered", async () => {
    await using rig = await ShimRig.open({ executable: await ipam() });
    const seen: unknown[] = [];
    const server = await serveCni({
      socketPath: join(rig.directory, "ipam.sock"),
      logger: silentLogger,
      answer: async ({ env, stdin }) => {
        seen.push(env["CNI_IFNAME"], stdin.toString());
        return { exitCode: 0, stdout: '{"ips":[]}\n' };
      },
    });
    const env = { CNI_IFNAME: "net1", KUBE_VHOSTUSER_IPAM_SOCKET: join(rig.directory, "ipam.sock") };
    const ended = await rig.run({ verb: "ADD", env, stdin: "{}" });
    await server.close();
    expect(ended).toMatchObject({ code: 0, stdout: '{"ips":[]}\n' });
    expect(seen).toEqual(["net1", "{}"]);
  });

  it("answers ADD with try again and DEL with success where the agent is away", async () => {
    const defines = { LISTEN_MS: 50, LISTEN_DEL_MS: 50, RETURN_MS: 50, RETURN_DEL_MS: 50 };
    const executable = await compileShim({
      executable: "kube-vhostuser-ipam",
      defines,
      output: join(built, "brief"),
    });
    await using rig = await ShimRig.open({ executable });
    const env = { KUBE_VHOSTUSER_IPAM_SOCKET: join(rig.directory, "ipam.sock") };
    const ended = await rig.run({ verb: "ADD", env });
    expect(ended.code).toBe(1);
    expect(JSON.parse(ended.stdout)).toMatchObject({
      code: 11,
      msg: expect.stringMatching(/^kube-vhostuser-ipam daemon-unavailable: the IPAM agent does not listen/),
    });
    expect(await rig.run({ verb: "DEL", env })).toMatchObject({ code: 0, stdout: "" });
    expect(JSON.parse((await rig.run({ verb: "STATUS", env })).stdout)).toMatchObject({ code: 50 });
  });

  it("runs no other plugin", async () => {
    await using rig = await ShimRig.open({ executable: await ipam() });
    const socketPath = join(rig.directory, "ipam.sock");
    const server = await serveCni({
      socketPath,
      logger: silentLogger,
      answer: async ({ delegate }) => {
        await delegate({ type: "other", env: {}, stdin: Buffer.from("{}") });
        return { exitCode: 0, stdout: "{}\n" };
      },
    });
    await rig.plugin("other", "touch ran; echo '{}'");
    const ended = await rig.run({ verb: "ADD", env: { KUBE_VHOSTUSER_IPAM_SOCKET: socketPath } });
    await server.close();
    expect(JSON.parse(ended.stdout)).toMatchObject({
      code: 11,
      msg: expect.stringContaining("the IPAM agent answered"),
    });
  });
});
