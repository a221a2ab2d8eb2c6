import { fstatSync } from "node:fs";
import { lstat, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import type { Dataplane } from "../dataplane/dataplane.ts";
import type { PortRequest, PortState } from "../dataplane/port.ts";
import { Failure } from "../failure/failure.ts";
import type { Pool } from "../pools/pools.ts";
import type { AllocationRecord } from "../records/allocation-record.ts";
import { ensureServedPort } from "./ensure-attachment.ts";
import type { NodeContext } from "./node-context.ts";
import { publishSocket } from "./publish-socket.ts";

const id = "0123456789abcdef";
const name = "vhu1";
let root: string;
let directory: string;
let inPod: string;
let servers: Server[];

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "kvu-serve-"));
  directory = join(root, "switch");
  inPod = join(root, id, "net1", "vhost.sock");
  servers = [];
  await mkdir(directory);
  await mkdir(join(root, id, "net1"), { recursive: true });
});
afterEach(async () => {
  for (const server of servers) server.close();
  await rm(root, { recursive: true });
});

/** A switch that cannot make a socket where there is one, as Open vSwitch; with real files. */
function fakeSwitch(): { readonly pool: Pool; readonly calls: string[]; readonly made: Set<string> } {
  const calls: string[] = [];
  const made = new Set<string>();
  const dataplane: Partial<Dataplane> = {
    capabilities: { forgetsPorts: false, servesInPlace: false, answersDhcp: true },
    ensurePort: async () => {
      calls.push("ensure");
      if (!made.has("served")) {
        made.add(name);
        await listen(join(directory, name)).catch((cause: unknown) => {
          throw new Failure({ code: "port-failed", what: "could not open network device", cause });
        });
        made.add("served");
      }
      return { name, socketFile: name, connected: false } as PortState;
    },
    removePort: async () => {
      calls.push("remove");
      made.clear();
      return true;
    },
    listPorts: async () => {
      if (!made.has(name)) return [];
      return [{ name, ...(made.has("served") ? {} : { error: "could not open" }) } as PortState];
    },
  };
  const config = { name: "dpdk", switchSockets: directory };
  return { pool: { config, dataplane } as unknown as Pool, calls, made };
}

async function listen(path: string): Promise<void> {
  const server = createServer();
  servers.push(server);
  await new Promise<void>((resolve, reject) => server.once("error", reject).listen(path, resolve));
}

const ownership = { owner: process.getuid?.() ?? 0, group: process.getgid?.() ?? 0, mode: 0o2770 };
const ensure = (pool: Pool) =>
  ensureServedPort(
    { config: { root } } as NodeContext,
    pool,
    { name, owner: { interfaceName: "net1" } } as PortRequest,
    { id, ownership } as AllocationRecord,
    AbortSignal.timeout(30_000),
  );

it("removes what a killed switch left before the port is made, because a failed bind damages the switch", async () => {
  await listen(join(directory, name));
  const { pool, calls } = fakeSwitch();
  await ensure(pool);
  expect(calls).toEqual(["ensure"]);
  expect((await lstat(inPod)).isSocket()).toBe(true);
});

it("removes it also when the switch has failed on it already at its start", async () => {
  await listen(join(directory, name));
  const { pool, calls, made } = fakeSwitch();
  made.add(name);
  await ensure(pool);
  expect(calls).toEqual(["ensure"]);
  expect((await lstat(inPod)).isSocket()).toBe(true);
});

it("recreates the port where the pod has removed its socket", async () => {
  const { pool, calls } = fakeSwitch();
  await ensure(pool);
  await rm(inPod);
  await ensure(pool);
  expect(calls).toEqual(["ensure", "ensure", "remove", "ensure"]);
  expect((await lstat(inPod)).isSocket()).toBe(true);
});

it("labels the socket itself, before the pod can see it", async () => {
  await listen(join(directory, name));
  const labelled: unknown[] = [];
  const socket = { directory, file: name, root, allocationId: id, interfaceName: "net1" };
  const label = "system_u:object_r:container_file_t:s0";
  await publishSocket({ ...socket, ownership: { ...ownership, selinuxLabel: label } }, async ([fd], text) => {
    const isHidden = await lstat(inPod).then(
      () => false,
      () => true,
    );
    labelled.push([fstatSync(fd ?? -1).isSocket(), text, isHidden]);
    return "set";
  });
  expect(labelled).toEqual([[true, label, true]]);
  expect((await lstat(inPod)).isSocket()).toBe(true);
});

it("frees what a pod left in the socket's place outside the event loop, which millions of attributes would stop", async () => {
  await listen(join(directory, name));
  await writeFile(inPod, "");
  let isLoopRunning = false;
  setImmediate(() => {
    isLoopRunning = true;
  });
  await publishSocket({ directory, file: name, root, allocationId: id, interfaceName: "net1", ownership });
  expect(isLoopRunning).toBe(true);
  expect((await lstat(inPod)).isSocket()).toBe(true);
});

it("recreates a socket that the switch makes in the pod's directory, unless a peer is connected", async () => {
  const calls: string[] = [];
  const state = { connected: false };
  const dataplane: Partial<Dataplane> = {
    capabilities: { forgetsPorts: true, servesInPlace: true, answersDhcp: false },
    ensurePort: async () => {
      if (calls.at(-1) !== "ensure") await listen(inPod);
      calls.push("ensure");
      return { name, ...state } as PortState;
    },
    removePort: async () => {
      calls.push("remove");
      return true;
    },
  };
  const pool = { config: { name: "in-place" }, dataplane } as unknown as Pool;
  await ensure(pool);
  await ensure(pool);
  expect(calls).toEqual(["ensure", "ensure"]);
  await rm(inPod);
  state.connected = true;
  expect((await ensure(pool)).changes).toBeUndefined();
  expect(calls).toEqual(["ensure", "ensure", "ensure"]);
  state.connected = false;
  expect((await ensure(pool)).changes).toEqual(["the socket of port vhu1 was gone"]);
  expect(calls.slice(3)).toEqual(["ensure", "remove", "ensure"]);
  expect((await lstat(inPod)).isSocket()).toBe(true);
});
