import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { systemClock } from "../sync/clock.ts";
import { LiveConfig } from "./live-config.ts";
import { parseConfig } from "./load.ts";
import type { DaemonConfig } from "./schema.ts";

const text = (capacity: number | string, top = "") =>
  `node: n1\n${top}pools:\n  - name: sockets\n    capacity: ${capacity}\n    dataplane: { type: ovs-dpdk, bridge: br0 }\n`;

let directory: string;
let live: LiveConfig | undefined;
let applied: DaemonConfig[];
let logged: { level: number; msg: string; [field: string]: unknown }[];
let happened = Promise.withResolvers<void>();

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "config-"));
  applied = [];
  logged = [];
});
afterEach(async () => {
  await live?.close();
  live = undefined;
  await rm(directory, { recursive: true });
});

async function start(
  file: string,
  {
    config = text(4),
    ...options
  }: {
    readonly config?: string;
    readonly pollMs?: number;
    readonly apply?: (config: DaemonConfig) => Promise<void>;
    readonly check?: (config: DaemonConfig) => Promise<void>;
  } = {},
): Promise<LiveConfig> {
  const logger = pino(
    {},
    {
      write: (line) => {
        logged.push(JSON.parse(line));
        happened.resolve();
      },
    },
  );
  live = new LiveConfig({
    file,
    config: parseConfig(config, file),
    parse: (content) => parseConfig(content, file),
    apply: async (config) => {
      applied.push(config);
    },
    clock: systemClock,
    logger,
    ...options,
  });
  await live.start();
  return live;
}

/** Waits until something of this text is logged. */
async function says(part: string): Promise<(typeof logged)[number]> {
  const end = AbortSignal.timeout(30_000);
  const late = Promise.withResolvers<never>();
  end.addEventListener("abort", () => late.reject(new Error(`not logged within 30 s: ${part}`)));
  for (;;) {
    happened = Promise.withResolvers();
    const found = logged.find(({ msg }) => msg.includes(part));
    if (found !== undefined) return found;
    await Promise.race([happened.promise, late.promise]);
  }
}

/** At once: a look may come at any time, also between a file's making and its text. */
async function replace(file: string, content: string): Promise<void> {
  await writeFile(`${file}.new`, content);
  await rename(`${file}.new`, file);
}

/** What kubelet does for a new version of a mounted ConfigMap. */
async function publish(version: string, content: string): Promise<void> {
  await mkdir(join(directory, version));
  await writeFile(join(directory, version, "config.yaml"), content);
  await symlink(version, join(directory, "..data_tmp"));
  await rename(join(directory, "..data_tmp"), join(directory, "..data"));
}

describe("a live configuration", () => {
  it("tells whether the file is what runs, and which of its keys wait for a restart", async () => {
    const file = join(directory, "config.yaml");
    await writeFile(file, text(4));
    const config = await start(file);
    expect(config.view).toEqual({ isOk: true, waiting: [] });
    await writeFile(file, "pools: 1");
    await says("is not taken");
    expect(config.view).toEqual({ isOk: false, waiting: [] });
    await writeFile(file, text(5, "podRoot: /other\n"));
    await says("is in effect");
    expect(config.view).toEqual({ isOk: true, waiting: ["podRoot"] });
  });

  it("takes a new version of a mounted ConfigMap", async () => {
    await publish("..1", text(4));
    await symlink("..data/config.yaml", join(directory, "config.yaml"));
    const config = await start(join(directory, "config.yaml"));
    await publish("..2", text(9));
    await says("is in effect");
    expect(config.current.pools[0]?.capacity).toBe(9);
    expect(applied).toEqual([config.current]);
  });

  it("reports a file that is wrong with line and key, and goes on with what it had", async () => {
    const file = join(directory, "config.yaml");
    await writeFile(file, text(4));
    const config = await start(file);
    await replace(file, text("many"));
    const { reason, code } = await says("is not taken");
    expect(reason).toContain("line 4, key pools.0.capacity");
    expect(code).toBe("invalid-config");
    expect(config.current).toEqual(parseConfig(text(4), file));
    await writeFile(file, text(5));
    await says("is in effect");
    expect(applied.map(({ pools }) => pools[0]?.capacity)).toEqual([5]);
  });

  it("says once which keys need a restart, and takes the others", async () => {
    const file = join(directory, "config.yaml");
    await writeFile(file, text(4));
    const config = await start(file);
    await writeFile(file, text(5, "root: /run/other\n"));
    await says("is in effect");
    await writeFile(file, text(6, "root: /run/other\n"));
    await expect.poll(() => config.current.pools[0]?.capacity).toBe(6);
    expect(logged.filter(({ msg }) => msg.includes("need a restart")).map(({ keys }) => keys)).toEqual([
      ["root"],
    ]);
    expect(config.current.root).toBe("/var/run/vhostuser");
  });

  it("refuses a pool that does not fit to the root that stays", async () => {
    const file = join(directory, "config.yaml");
    await writeFile(file, text(4));
    await start(file, { config: text(4, `root: /${"r".repeat(50)}\n`) });
    await says("need a restart");
    const long = text(4).replace("name: sockets", `name: ${"p".repeat(30)}\n    resource: vhostuser/sockets`);
    await replace(file, long);
    expect((await says("is not taken")).reason).toContain("a socket's path would have");
    expect(applied).toEqual([]);
  });

  it("refuses a pool whose resource is taken by one that stays until a restart, and names the key", async () => {
    const file = join(directory, "config.yaml");
    await writeFile(file, text(4));
    const config = await start(file);
    const pool = (name: string) =>
      `  - { name: ${name}, resource: vhostuser/dataplane, capacity: 1, dataplane: { type: ovs-dpdk, bridge: b } }\n`;
    await replace(file, text(5, "dataplaneResource: vhostuser/switch\n") + pool("other"));
    const { reason } = await says("is not taken");
    expect(reason).toContain(
      "key pools.1.resource: vhostuser/dataplane is taken already by dataplaneResource",
    );
    expect(config.current).toEqual(parseConfig(text(4), file));
    expect(applied).toEqual([]);
  });

  it("says that it is in effect only when it is, and tries again at the next look", async () => {
    const file = join(directory, "config.yaml");
    await writeFile(file, text(4));
    let failures = 0;
    const apply = async (config: DaemonConfig) => {
      if (failures++ < 3) throw new Error("pool sockets has no plugin");
      applied.push(config);
    };
    const config = await start(file, { pollMs: 20, apply });
    await writeFile(file, text(5));
    await says("is in effect");
    expect(applied).toEqual([config.current]);
    expect(config.current.pools[0]?.capacity).toBe(5);
    // One error; the same again is told to nobody.
    expect(logged.filter(({ msg }) => msg.includes("effect")).map(({ level }) => level)).toEqual([50, 30]);
  });

  it("tries again what failed when the daemon started", async () => {
    const file = join(directory, "config.yaml");
    await writeFile(file, text(4));
    let isFirst = true;
    const config = await start(file, {
      pollMs: 20,
      apply: async (next) => {
        if (isFirst) {
          isFirst = false;
          throw new Error("pool sockets has no plugin");
        }
        applied.push(next);
      },
    });
    await config.applyInitial();
    await says("is in effect");
    expect(applied).toEqual([parseConfig(text(4), file)]);
  });

  it("takes nothing of what the node refuses until the node takes it", async () => {
    const file = join(directory, "config.yaml");
    await writeFile(file, text(4));
    let checks = 0;
    const config = await start(file, {
      pollMs: 20,
      check: async ({ pools }) => {
        expect(pools[0]?.capacity).toBe(5);
        if (checks++ < 3) throw new Error("the label cannot be set");
      },
    });
    await replace(file, text(5));
    const { reason } = await says("is not taken");
    expect(reason).toContain("the label cannot be set");
    expect([config.current.pools[0]?.capacity, applied]).toEqual([4, []]);
    await says("is in effect");
    expect(applied).toEqual([config.current]);
    expect(checks).toBe(4);
    expect(logged.filter(({ level }) => level === 50)).toHaveLength(1);
  });

  it("forgets what the node refused when the file says something else", async () => {
    const file = join(directory, "config.yaml");
    await writeFile(file, text(4));
    const check = async ({ pools }: DaemonConfig) => {
      if (pools[0]?.capacity === 5) throw new Error("the label cannot be set");
    };
    await start(file, { pollMs: 20, check });
    await writeFile(file, text(5));
    await says("is not taken");
    await writeFile(file, text(6));
    await says("is in effect");
    expect(applied.map(({ pools }) => pools[0]?.capacity)).toEqual([6]);
  });

  it("says that a file is right again when it says what it said before it was wrong", async () => {
    const file = join(directory, "config.yaml");
    await writeFile(file, text(4));
    await start(file);
    await writeFile(file, "pools: [");
    await says("is not taken");
    await writeFile(file, text(4));
    await says("is right again");
    expect(applied).toEqual([]);
  });

  it("goes on when the file cannot be read, and when its directory is made anew", async () => {
    const place = join(directory, "etc");
    const file = join(place, "config.yaml");
    await mkdir(place);
    await writeFile(file, text(4));
    const config = await start(file, { pollMs: 50 });
    await rm(file);
    await mkdir(file);
    const { reason } = await says("cannot be read");
    expect(reason).toContain("EISDIR");
    await rm(place, { recursive: true });
    await mkdir(place);
    await writeFile(file, text(7));
    await says("is in effect");
    expect(config.current.pools[0]?.capacity).toBe(7);
  });

  it("goes on when the file is gone, and takes it when it is back", async () => {
    const file = join(directory, "config.yaml");
    await writeFile(file, text(4));
    const config = await start(file);
    await rm(file);
    await says("is gone");
    expect(config.current.pools[0]?.capacity).toBe(4);
    await writeFile(file, text(7));
    await says("is in effect");
  });

  it("sees a change that no event told of", async () => {
    const elsewhere = await mkdtemp(join(tmpdir(), "config-"));
    try {
      const target = join(elsewhere, "real.yaml");
      await writeFile(target, text(4));
      await symlink(target, join(directory, "config.yaml"));
      await start(join(directory, "config.yaml"), { pollMs: 50 });
      await writeFile(target, text(8));
      await says("is in effect");
    } finally {
      await rm(elsewhere, { recursive: true });
    }
  });
});
