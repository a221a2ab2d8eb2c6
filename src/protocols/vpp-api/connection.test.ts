import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { failureOf } from "../../../test/stand-in/failure-of.ts";
import { vhostUserValues } from "../../../test/stand-in/vpp/vhost-user-values.ts";
import { VppStandIn, type VppStandInOptions } from "../../../test/stand-in/vpp/vpp.ts";
import { Failure } from "../../failure/failure.ts";
import { silentLogger } from "../../logging/logger.ts";
import { connectVpp, createVppClient, type VppClient, type VppConnection } from "./connection.ts";
import { frame } from "./frame.ts";
import {
  ANY_INDEX,
  addPolicer,
  controlPing,
  createVhostUser,
  deleteVhostUser,
  dumpInterfaces,
  interfaceEvent,
  setInterfaceFlags,
  showVersion,
  wantInterfaceEvents,
} from "./messages.ts";

const soon = () => AbortSignal.timeout(30_000);
const never = new AbortController().signal;
const EVERYTHING = { sw_if_index: ANY_INDEX, name_filter_valid: false, name_filter: "" };

const DROP = { type: 0, dscp: 0 };
const NO_POLICER = {
  is_add: false,
  name: "p",
  cir: 0,
  eir: 0,
  cb: 0n,
  eb: 0n,
  rate_type: 0,
  round_type: 0,
  type: 0,
  color_aware: false,
  conform_action: DROP,
  exceed_action: DROP,
  violate_action: DROP,
};

const vhostUser = (socket: string) => vhostUserValues(socket, "a tag");

let directory: string;
let path: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "vpp-"));
  path = join(directory, "api.sock");
});
afterEach(() => rm(directory, { recursive: true, force: true }));

describe("a connection to VPP", () => {
  let vpp: VppStandIn;
  let connection: VppConnection;

  async function start(options: Omit<VppStandInOptions, "path"> = {}): Promise<void> {
    vpp = new VppStandIn({ path, ...options });
    await vpp.start();
    connection = await connectVpp({ path }, soon());
  }
  afterEach(async () => {
    connection.close();
    await vpp.kill();
  });

  it("gives each request its own answer, and a dump all of its details and no others", async () => {
    await start();
    const made = await Promise.all(
      ["a", "b", "c"].map((name) =>
        connection.request(createVhostUser, vhostUser(join(directory, name)), soon()),
      ),
    );
    expect(made.map(({ retval }) => retval)).toEqual([0, 0, 0]);
    const [version, interfaces, again] = await Promise.all([
      connection.request(showVersion, {}, soon()),
      connection.dump(dumpInterfaces, EVERYTHING, soon()),
      connection.dump(dumpInterfaces, { ...EVERYTHING, sw_if_index: made[1]?.sw_if_index ?? 0 }, soon()),
    ]);
    expect(version.program).toBe("vpe");
    expect(interfaces.map(({ sw_if_index }) => sw_if_index)).toEqual([0, 1, 2, 3]);
    expect(again.map(({ tag }) => tag)).toEqual(["a tag"]);
    expect(vpp.violations).toEqual([]);
  });

  it("hands a refusal over as an answer, with what VPP says beside it", async () => {
    await start();
    const first = await connection.request(createVhostUser, vhostUser(join(directory, "a")), soon());
    const second = await connection.request(createVhostUser, vhostUser(join(directory, "a")), soon());
    expect(second).toEqual({ retval: -79, sw_if_index: first.sw_if_index });
    expect(await connection.request(deleteVhostUser, { sw_if_index: 99 }, soon())).toEqual({ retval: -2 });
  });

  it("reports events", async () => {
    await start();
    const heard: unknown[] = [];
    connection.on(interfaceEvent, (event) => heard.push(event));
    await connection.request(wantInterfaceEvents, { enable_disable: 1, pid: 77 }, soon());
    const { sw_if_index } = await connection.request(
      createVhostUser,
      vhostUser(join(directory, "a")),
      soon(),
    );
    await connection.request(setInterfaceFlags, { sw_if_index, flags: 1 }, soon());
    vpp.setGuest(join(directory, "a"), true);
    await connection.request(deleteVhostUser, { sw_if_index }, soon());
    const event = { pid: 77, sw_if_index, deleted: false };
    expect(heard).toEqual([
      { ...event, flags: 0 },
      { ...event, flags: 1 },
      { ...event, flags: 3 },
      { ...event, flags: 0, deleted: true },
    ]);
  });

  it("names a message that VPP lacks or has in another form, and goes on with the others", async () => {
    await start({ lacks: ["policer_add_del"], checksums: { show_version_reply: "01234567" } });
    expect(connection.whyLacking([controlPing, showVersion])?.message).toContain("show_version");
    expect(connection.whyLacking([controlPing])).toBeUndefined();
    const [other, missing] = await Promise.all([
      failureOf(connection.request(showVersion, {}, soon())),
      failureOf(connection.request(addPolicer, NO_POLICER, soon())),
    ]);
    expect(other).toMatchObject({
      code: "dataplane-misconfigured",
      message: expect.stringMatching(/01234567.*c919bde1/),
    });
    expect(missing).toMatchObject({
      code: "dataplane-misconfigured",
      message: expect.stringContaining("policer_add_del"),
    });
    expect((await connection.request(controlPing, {}, soon())).retval).toBe(0);
  });

  it("refuses a value that does not fit before anything is sent", async () => {
    await start();
    const long = failureOf(connection.request(createVhostUser, vhostUser("x".repeat(256)), soon()));
    expect((await long).code).toBe("invalid-request");
    expect(await connection.dump(dumpInterfaces, EVERYTHING, soon())).toHaveLength(1);
  });

  it("gives a request up when its signal fires, and ignores the late answer", async () => {
    await start();
    const giveUp = new AbortController();
    const calls = [
      failureOf(connection.request(showVersion, {}, giveUp.signal)),
      failureOf(connection.dump(dumpInterfaces, EVERYTHING, giveUp.signal)),
    ];
    giveUp.abort();
    for (const failure of await Promise.all(calls)) expect(failure.code).toBe("dataplane-timeout");
    expect((await connection.request(controlPing, {}, soon())).retval).toBe(0);
    const reason = new Failure({ code: "internal", what: "the daemon is stopping" });
    expect(await failureOf(connection.request(controlPing, {}, AbortSignal.abort(reason)))).toBe(reason);
    expect(await failureOf(connectVpp({ path }, AbortSignal.abort(reason)))).toBe(reason);
  });

  it("rejects all that is under way when VPP dies", async () => {
    await start();
    const calls = [
      failureOf(connection.request(showVersion, {}, never)),
      failureOf(connection.dump(dumpInterfaces, EVERYTHING, never)),
    ];
    await vpp.kill();
    for (const failure of await Promise.all(calls)) expect(failure.code).toBe("dataplane-unavailable");
    expect(connection.lost.aborted).toBe(true);
    expect((await failureOf(connection.request(controlPing, {}, soon()))).code).toBe("dataplane-unavailable");
  });
});

describe("a client of VPP", () => {
  let vpp: VppStandIn;
  let client: VppClient;
  let connected: number;

  beforeEach(async () => {
    connected = 0;
    vpp = new VppStandIn({ path });
    await vpp.start();
    client = createVppClient({
      path,
      logger: silentLogger,
      onConnected: () => {
        connected += 1;
      },
    });
  });
  afterEach(async () => {
    client.close();
    await vpp.kill();
  });

  it("shares one connection, and makes another when VPP is back, with its new numbers", async () => {
    const [one, two] = await Promise.all([client.connection(soon()), client.connection(soon())]);
    expect(two).toBe(one);
    await vpp.kill();
    if (!one.lost.aborted) await once(one.lost, "abort", { signal: soon() });
    expect((await failureOf(client.connection(soon()))).code).toBe("dataplane-unavailable");
    await vpp.start();
    const three = await client.connection(soon());
    expect((await three.request(controlPing, {}, soon())).retval).toBe(0);
    expect(connected).toBe(2);
    expect(vpp.violations).toEqual([]);
  });

  it("notices a restart of VPP while there is no call", async () => {
    await client.connection(soon());
    await vpp.kill();
    await vpp.start();
    await expect.poll(() => connected).toBe(2);
  });

  it("ends what is under way when it is closed, and stays closed", async () => {
    const connection = await client.connection(soon());
    const call = failureOf(connection.request(controlPing, {}, never));
    client.close();
    expect((await call).code).toBe("dataplane-unavailable");
    expect((await failureOf(client.connection(soon()))).code).toBe("dataplane-unavailable");
  });
});

describe("a peer that is not VPP, or not a sound one", () => {
  let server: Server;
  let greeting: readonly Uint8Array[];
  const sockets = new Set<Socket>();

  beforeEach(async () => {
    server = createServer((socket) => {
      sockets.add(socket.on("error", () => undefined).resume());
      for (const bytes of greeting) socket.write(bytes);
    });
    await once(server.listen(path), "listening");
  });
  afterEach(async () => {
    for (const socket of sockets) socket.destroy();
    sockets.clear();
    server.close();
    await once(server, "close");
  });

  it("is not waited for longer than the signal allows", async () => {
    greeting = [];
    const giveUp = new AbortController();
    const dialling = failureOf(connectVpp({ path }, giveUp.signal));
    await once(server, "connection", { signal: soon() });
    giveUp.abort();
    expect((await dialling).code).toBe("dataplane-timeout");
  });

  it.each([
    ["words", [Buffer.from("SSH-2.0-OpenSSH_9.2\r\nwhatever")]],
    ["another message", [frame(Buffer.from("0011000000000000", "hex"))]],
    ["a table that is cut off", [frame(Buffer.from("00100000000000000001000000000000000affff", "hex"))]],
    ["a refusal", [frame(Buffer.from("00100000000000000001ffffffff0000000a0000", "hex"))]],
  ])("is recognised by its greeting: %s", async (_, words) => {
    greeting = words;
    expect((await failureOf(connectVpp({ path }, soon()))).code).toBe("dataplane-protocol");
  });

  it("is dialled again where it was lost with its greeting", async () => {
    const welcome = frame(Buffer.from("00100000000000000001000000000000000a0000", "hex"));
    greeting = [Buffer.concat([welcome, frame(Buffer.of(0))])];
    const client = createVppClient({ path, logger: silentLogger });
    try {
      await client.connection(soon()).catch(() => undefined);
      greeting = [welcome];
      const isUp = async () => !(await client.connection(soon())).lost.aborted;
      await expect.poll(isUp).toBe(true);
    } finally {
      client.close();
    }
  });

  it("ends every call with a Failure, whatever it says before it hangs up", async () => {
    // A sound greeting with control_ping as 7 and its reply as 8.
    const entry = (id: number, name: string) => {
      const bytes = Buffer.alloc(66);
      bytes.writeUInt16BE(id);
      bytes.write(name, 2);
      return bytes;
    };
    const head = Buffer.from("00100000000000000001000000000000000a0002", "hex");
    const table = [entry(7, "control_ping_51077d14"), entry(8, "control_ping_reply_f6b0b8ca")];
    greeting = [frame(Buffer.concat([head, ...table]))];
    const bytes = fc.uint8Array({ maxLength: 60 }).map((chunk) => Buffer.from(chunk));
    const header = fc
      .tuple(fc.constantFrom(7, 8, 9), fc.constantFrom(0, 1, 2, 3), bytes)
      .map(([id, context, rest]) => {
        const start = Buffer.alloc(6);
        start.writeUInt16BE(id);
        start.writeUInt32BE(context, 2);
        return frame(Buffer.concat([start, rest]));
      });
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.oneof(bytes, bytes.map(frame), header), { maxLength: 6 }),
        async (chunks) => {
          const accepted = once(server, "connection", { signal: soon() }) as Promise<[Socket]>;
          const connection = await connectVpp({ path }, soon());
          const [peer] = await accepted;
          const call = connection.request(controlPing, {}, never).catch((error: unknown) => error);
          for (const chunk of chunks) peer.write(chunk);
          peer.end();
          const outcome = await call;
          // Chance may make the right answer.
          if (!(outcome instanceof Failure)) expect(outcome).toHaveProperty("retval");
          else expect(["dataplane-unavailable", "dataplane-protocol"]).toContain(outcome.code);
          connection.close();
        },
      ),
      { numRuns: 100 },
    );
  });

  it("says where there is no listener", async () => {
    const missing = await failureOf(connectVpp({ path: join(directory, "none") }, soon()));
    expect(missing).toMatchObject({
      code: "dataplane-unavailable",
      message: expect.stringContaining("ENOENT"),
    });
  });
});
