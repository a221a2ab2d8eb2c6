import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createConnection, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { describeThrown } from "../failure/failure.ts";
import type { Delegate } from "../ipam/ipam.ts";
import { silentLogger } from "../logging/logger.ts";
import type { Clock } from "../sync/clock.ts";
import type { RawRequest } from "./request.ts";
import { type CniServer, serveCni } from "./server.ts";

const ENV = { CNI_COMMAND: "ADD", CNI_PATH: "/opt/é" };
const CALL = { type: "host-local", env: ENV, stdin: Buffer.from("{é}") };
const CALL_FRAME = "delegate 10 33 4\nhost-local" + "CNI_COMMAND=ADD\0CNI_PATH=/opt/é\0" + "{é}";

let directory: string;
let server: CniServer | undefined;
let shim: Socket;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "kvu-server-"));
});
afterEach(async () => {
  shim?.destroy();
  await server?.close();
  await rm(directory, { recursive: true });
});

/** Serves with this, and connects a shim that has sent its request. */
async function begin(
  work: (request: RawRequest) => Promise<string>,
  options: { readonly clock?: Clock } = {},
): Promise<void> {
  const socketPath = join(directory, "cni.sock");
  server = await serveCni({
    socketPath,
    logger: silentLogger,
    ...(options.clock === undefined ? {} : { clock: options.clock }),
    answer: async (request) => ({ exitCode: 0, stdout: await work(request) }),
  });
  shim = createConnection(socketPath);
  shim.write(`kube-vhostuser-cni 2 4711 16 2\nCNI_COMMAND=ADD\0{}`);
}

/** Reads until this many bytes are there, or the daemon hung up. */
async function hear(bytes: number): Promise<string> {
  let text = "";
  while (Buffer.byteLength(text) < bytes) {
    const [chunk] = (await Promise.race([once(shim, "data"), once(shim, "end").then(() => [undefined])])) as [
      Buffer | undefined,
    ];
    if (chunk === undefined) break;
    text += chunk.toString();
  }
  return text;
}

/** Only what a stopping server waits for comes to an end. */
const sleepUnlessShort: Clock["sleep"] = (ms) =>
  ms > 5_000 ? new Promise(() => undefined) : Promise.resolve();

const needed = (delegate: Delegate | undefined): Delegate => {
  if (delegate === undefined) throw new Error("the shim cannot run plugins");
  return delegate;
};

describe("a shim that runs plugins for the daemon", () => {
  it("is asked for one after the other, and then gets the answer", async () => {
    await begin(async ({ delegate }) => {
      const first = await needed(delegate)(CALL);
      const second = await needed(delegate)({ ...CALL, type: "static" });
      return JSON.stringify([first, second]);
    });
    const size = Buffer.byteLength(CALL_FRAME);
    expect(await hear(size)).toBe(CALL_FRAME);
    // In pieces, and with a body that is counted in bytes.
    shim.write("0 ");
    shim.write("3\n{");
    shim.write("é");
    expect(await hear(10)).toContain("delegate 6 ");
    shim.write("127 0\n");
    expect(await hear(10)).toContain(
      JSON.stringify([
        { exitCode: 0, stdout: "{é" },
        { exitCode: 127, stdout: "" },
      ]),
    );
  });

  it.each([
    ["words", "what?\n"],
    ["a code without a size", "0\n"],
    ["a negative size", "0 -1\n"],
    ["too much", `0 ${1024 * 1024 + 1}\n`],
    ["more than it said", "0 1\nab"],
    ["an endless line", "0".repeat(100)],
  ])("and answers with %s: that plugin's end is unknown, and no other is asked for", async (_name, bytes) => {
    await begin(async ({ delegate }) => {
      const failures: string[] = [];
      for (let time = 0; time < 2; time++) {
        await needed(delegate)(CALL).catch((error: unknown) => failures.push(describeThrown(error)));
      }
      return failures.join("|");
    });
    await hear(Buffer.byteLength(CALL_FRAME));
    shim.write(bytes);
    const [status = "", ...rest] = (await hear(60)).split("\n");
    expect(status).toMatch(/^0 \d+$/);
    expect(rest.join("\n")).toMatch(/host-local was called with ADD.*\|.*host-local was called with ADD/);
  });

  it("and disconnects: how that plugin ended is unknown", async () => {
    const failed = Promise.withResolvers<unknown>();
    await begin(async ({ delegate }) => {
      await needed(delegate)(CALL).catch((error: unknown) => failed.resolve(error));
      return "";
    });
    await hear(Buffer.byteLength(CALL_FRAME));
    shim.destroy();
    expect(await failed.promise).toMatchObject({ code: "ipam-interrupted" });
  });
});

describe("a server that is closed", () => {
  it("disconnects a shim whose plugin goes on, and waits until its request has failed", async () => {
    const failed: unknown[] = [];
    await begin(
      async ({ delegate }) => {
        await needed(delegate)(CALL).catch((error: unknown) => failed.push(error));
        return "";
      },
      { clock: { now: () => 0, monotonic: () => 0, sleep: sleepUnlessShort } },
    );
    await hear(Buffer.byteLength(CALL_FRAME));
    await server?.close();
    expect(failed).toMatchObject([{ code: "ipam-interrupted" }]);
  });

  it("runs no further plugin, and still answers a request that needs none", async () => {
    const begun = Promise.withResolvers<Delegate>();
    const goOn = Promise.withResolvers<void>();
    await begin(
      async ({ delegate }) => {
        begun.resolve(needed(delegate));
        await goOn.promise;
        return needed(delegate)(CALL).then(() => "it ran", describeThrown);
      },
      { clock: { now: () => 0, monotonic: () => 0, sleep: sleepUnlessShort } },
    );
    await begun.promise;
    const closed = server?.close();
    await new Promise((resolve) => setImmediate(resolve)); // the server's patience is over
    goOn.resolve();
    expect(await hear(60)).toContain("the daemon is stopping");
    await closed;
  });

  it("waits for a plugin that ends soon", async () => {
    const begun = Promise.withResolvers<void>();
    const end = Promise.withResolvers<string>();
    await begin(async () => {
      begun.resolve();
      return end.promise;
    });
    await begun.promise;
    const closed = server?.close();
    end.resolve("done");
    expect(await hear(8)).toBe("0 4\ndone");
    await closed;
  });
});
