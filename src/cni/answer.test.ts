import { closeSync, openSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { CniRig, DEVICE, type RigCall } from "../../test/stand-in/cni/cni-rig.ts";
import { createLogger } from "../logging/logger.ts";

const file = join(tmpdir(), `kvu-cni-log-${process.pid}`);
let fd: number;
let rig: CniRig;

beforeEach(async () => {
  fd = openSync(file, "w");
  rig = await CniRig.open({
    logger: createLogger({ level: "info", fd, program: "kube-vhostuser", node: "worker-1" }),
  });
  await rig.allocate(DEVICE);
});
afterEach(async () => {
  await rig.close();
  closeSync(fd);
  rmSync(file);
});

/** What a call logs. */
async function logged(verb: string, call: RigCall): Promise<Record<string, unknown>[]> {
  const before = readFileSync(file, "utf8").length;
  await rig.call(verb, call);
  return readFileSync(file, "utf8")
    .slice(before)
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line));
}

it("a failed ADD is logged with pod, network, node and the level's name, and without a stack", async () => {
  const [line, ...more] = await logged("ADD", { config: { name: "blue", vlan: 9_999 } });
  expect(more).toEqual([]);
  expect(line).toMatchObject({
    ...{
      level: "error",
      program: "kube-vhostuser",
      node: "worker-1",
      verb: "ADD",
      msg: "CNI request failed",
    },
    ...{ pod: "ns/pod", network: "blue", container: "c1", interface: "net1" },
    err: {
      code: "invalid-network-config",
      message: expect.stringMatching(/^invalid-network-config: vlan: 9999/),
    },
  });
  expect(line?.["err"]).not.toHaveProperty("stack");
});

it("pod and interface are logged of a request whose configuration is no JSON", async () => {
  expect(await logged("ADD", { config: "{" })).toMatchObject([
    { pod: "ns/pod", interface: "net1", err: { code: "undecodable" } },
  ]);
});

it("a defect is logged with its stack and that of its cause", async () => {
  rig.dataplane.ensurePort = () => Promise.reject(new TypeError("x is not a function"));
  const [line] = await logged("ADD", {});
  expect(line).toMatchObject({
    err: { code: "internal", stack: expect.stringMatching(/TypeError.*\n +at /) },
  });
});

it("unknown keys of a network are logged at ADD and STATUS, and the interface is attached", async () => {
  const config = { spoofchk: "on", bandwidth: { rate: 5 } };
  const warning = { level: "warn", network: "net", keys: ["bandwidth.rate", "spoofchk"] };
  expect(await logged("ADD", { config })).toMatchObject([{ ...warning, pod: "ns/pod" }, { msg: "attached" }]);
  expect(await logged("STATUS", { config })).toMatchObject([warning]);
  expect(await logged("DEL", { config })).toMatchObject([{ msg: "detached" }]);
});

it("every error's text begins with its code", async () => {
  const { json } = await rig.call("ADD", { config: { portSecurty: true } });
  expect(json).toMatchObject({
    code: 2,
    msg: "vhostuser unsupported-field: portSecurty: true: there is no such key",
    details: "network configuration; write portSecurity",
  });
});
