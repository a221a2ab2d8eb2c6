import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { renameSync } from "node:fs";
import {
  chmod,
  chown,
  link,
  lstat,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rename,
  rm,
  symlink,
  writeFile,
} from "node:fs/promises";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { systemCode } from "../../failure/failure.ts";
import { silentLogger } from "../../logging/logger.ts";
import { newAllocationId } from "../../names/allocation-id.ts";
import { type Clock, systemClock } from "../../sync/clock.ts";
import { ensureSocketDirectories } from "../directory/ensure.ts";
import { DirectoryGuard, type DirectoryGuardOptions } from "./guard.ts";
import { ENTRIES_MAX } from "./inspect-directory.ts";

const LIMIT_MS = 30_000;
let top: string;
let root: string;
let guard: DirectoryGuard;
let servers: Server[];

beforeEach(async () => {
  top = await mkdtemp(join(tmpdir(), "kvu-guard-"));
  await chmod(top, 0o755);
  root = join(top, "root");
  await mkdir(root);
  servers = [];
  guard = newGuard();
});
afterEach(async () => {
  await guard.close();
  for (const server of servers) server.close();
  await rm(top, { recursive: true });
});

function newGuard(options: Partial<DirectoryGuardOptions> = {}): DirectoryGuard {
  return new DirectoryGuard({
    ...{ root, clock: systemClock, logger: silentLogger, firstLockMs: 500 },
    // Not /tmp's, of which others take some meanwhile.
    ...{ inodes: () => ({ files: 131_072, ffree: 131_000 }), ...options },
  });
}

async function allocate(name = "net1", mode = 0o2770): Promise<string> {
  const allocationId = newAllocationId();
  const ownership = { owner: 107, group: 1500, mode };
  await ensureSocketDirectories({ root, allocationId, names: [name], ownership });
  return join(root, allocationId, name);
}

/** A pod's socket as a program with umask 022 leaves it. */
async function bindSocket(path: string, mode = 0o755): Promise<void> {
  const server = createServer();
  servers.push(server);
  const before = process.umask(0o777 & ~mode);
  server.listen(path);
  process.umask(before);
  await once(server, "listening");
  const { gid } = await lstat(path);
  await chown(path, 107, gid);
}

const modeOf = async (path: string) => ((await lstat(path)).mode & 0o7777).toString(8);

/** Fills the kernel's queue of events (fs.inotify.max_queued_events) and then binds a socket, with umask 022. */
const FLOOD = `
  const fs = require("node:fs");
  const [directory, path] = process.argv.slice(1);
  const limit = Number(fs.readFileSync("/proc/sys/fs/inotify/max_queued_events", "utf8"));
  for (const name of ["a", "b"]) fs.writeFileSync(directory + "/" + name, "");
  for (let n = 0; n < limit + 1000; n++) fs.chmodSync(directory + "/" + "ab"[n % 2], 0o600);
  process.umask(0o022);
  require("node:net").createServer().listen(path, () => {
    fs.chownSync(path, 107, 1500);
    process.exit();
  });`;

async function until(look: () => Promise<boolean>): Promise<void> {
  const end = performance.now() + LIMIT_MS;
  while (!(await look())) {
    if (performance.now() > end) throw new Error("waited in vain");
    await delay(10);
  }
}

describe("a socket made with umask 022", () => {
  it("becomes its group's as soon as it is bound", async () => {
    const directory = await allocate();
    await guard.start();
    await bindSocket(join(directory, "vhost.sock"));
    await until(async () => (await modeOf(join(directory, "vhost.sock"))) === "775");
    expect(guard.counts.socketsMended).toBe(1);
  });

  it("becomes its group's in a directory that was made after the guard began, and when it is bound anew", async () => {
    await guard.start();
    const directory = await allocate("sockets-00000");
    const path = join(directory, "vhost.sock");
    for (let life = 0; life < 3; life++) {
      await rm(path, { force: true });
      await bindSocket(path);
      await until(async () => (await modeOf(path)) === "775");
    }
  });

  it("was there before the guard began: is mended when start resolves", async () => {
    const directory = await allocate();
    await bindSocket(join(directory, "vhost.sock"));
    await guard.start();
    expect(await modeOf(join(directory, "vhost.sock"))).toBe("775");
  });

  it("stays as it is where the pool's mode gives the group nothing, or the group is another", async () => {
    const closed = await allocate("net1", 0o2700);
    await bindSocket(join(closed, "vhost.sock"));
    const other = await allocate();
    await bindSocket(join(other, "vhost.sock"));
    await chown(join(other, "vhost.sock"), 107, 1600);
    await guard.start();
    expect(await modeOf(join(closed, "vhost.sock"))).toBe("755");
    expect(await modeOf(join(other, "vhost.sock"))).toBe("755");
  });

  it("is all that is changed: no file, no link's target, no socket beyond the directory", async () => {
    const directory = await allocate();
    const elsewhere = join(top, "elsewhere.sock");
    await bindSocket(elsewhere);
    await chown(elsewhere, 0, 1500);
    await symlink(elsewhere, join(directory, "vhost.sock"));
    await writeFile(join(directory, "file"), "", { mode: 0o600 });
    await chown(join(directory, "file"), 107, 1500);
    await mkdir(join(directory, "below"));
    await bindSocket(join(directory, "below", "vhost.sock"));
    await symlink(top, join(directory, "up"));
    await guard.start();
    // Something that it does mend shows that it has looked.
    await bindSocket(join(directory, "seen.sock"));
    await until(async () => (await modeOf(join(directory, "seen.sock"))) === "775");
    expect(await modeOf(elsewhere)).toBe("755");
    expect(await modeOf(join(directory, "file"))).toBe("600");
    expect(await modeOf(join(directory, "below", "vhost.sock"))).toBe("755");
    expect(guard.counts.socketsMended).toBe(1);
  });

  it("is never connected to", async () => {
    const directory = await allocate();
    await bindSocket(join(directory, "vhost.sock"));
    let clients = 0;
    servers[0]?.on("connection", () => {
      clients += 1;
    });
    await guard.start();
    expect(guard.counts.socketsMended).toBe(1);
    await new Promise((resolve) => setImmediate(resolve));
    expect(clients).toBe(0);
  });
});

describe("a directory that is filled", () => {
  it("is emptied but for its socket, and given back later", async () => {
    const directory = await allocate();
    await bindSocket(join(directory, "vhost.sock"), 0o775);
    for (let n = 0; n < ENTRIES_MAX + 10; n++) await writeFile(join(directory, `f${n}`), "");
    await guard.start();
    await until(async () => (await readdir(directory)).length === 1);
    expect(await readdir(directory)).toEqual(["vhost.sock"]);
    await until(async () => (await modeOf(directory)) === "2770");
    expect((await lstat(directory)).uid).toBe(107);
  });

  it("is closed to its pod while it is emptied", async () => {
    const directory = await allocate();
    for (let n = 0; n < ENTRIES_MAX + 10; n++) await writeFile(join(directory, `f${n}`), "");
    guard = newGuard({ firstLockMs: 60_000 });
    await guard.start();
    await until(async () => (await readdir(directory)).length === 0);
    const touch = spawnSync("touch", [join(directory, "again")], { uid: 107, gid: 107 });
    expect(touch.status).not.toBe(0);
  });

  it("and then removed and made anew by somebody else is another one, from which nothing was taken", async () => {
    const directory = await allocate();
    guard = newGuard({ firstLockMs: 60_000 });
    await guard.start();
    for (let n = 0; n <= ENTRIES_MAX; n++) await writeFile(join(directory, `f${n}`), "");
    await until(async () => guard.counts.hoardsEmptied === 1);
    renameSync(directory, join(top, "removed"));
    const ownership = { owner: 107, group: 1500, mode: 0o2770 };
    await ensureSocketDirectories({
      ...{ root, allocationId: basename(dirname(directory)), names: ["net1"], ownership },
    });
    await bindSocket(join(directory, "vhost.sock"));
    await until(async () => (await modeOf(join(directory, "vhost.sock"))) === "775");
    await guard.close();
    expect([(await lstat(directory)).uid, await modeOf(directory)]).toEqual([107, "2770"]);
  });

  it("stays closed when ADD or the reconciler sees to it, and is opened by the next daemon", async () => {
    const directory = await allocate();
    for (let n = 0; n < ENTRIES_MAX + 10; n++) await writeFile(join(directory, `f${n}`), "");
    guard = newGuard({ firstLockMs: 60_000 });
    await guard.start();
    await until(async () => (await readdir(directory)).length === 0);
    expect([(await lstat(directory)).uid, await modeOf(directory)]).toEqual([0, "2550"]);
    const ownership = { owner: 107, group: 1500, mode: 0o2770 };
    const [name = "", allocationId = ""] = directory.split("/").reverse();
    await ensureSocketDirectories({ root, allocationId, names: [name], ownership });
    expect([(await lstat(directory)).uid, await modeOf(directory)]).toEqual([0, "2550"]);
    // As after a crash: the one that took it has not given it back.
    const next = newGuard({ ownershipOf: (id) => (id === allocationId ? ownership : undefined) });
    await next.start();
    await until(async () => (await modeOf(directory)) === "2770");
    expect((await lstat(directory)).uid).toBe(107);
    await next.close();
  });

  it("in its depth is emptied too, without following a link or running out of descriptors", async () => {
    const directory = await allocate();
    const secret = join(top, "secret");
    await mkdir(secret);
    for (let n = 0; n < 300; n++) await writeFile(join(secret, `kept${n}`), "kept");
    await symlink(secret, join(directory, "link"));
    await mkdir(join(directory, "t"));
    for (let depth = 0; depth < 1500; depth++) {
      await mkdir(join(directory, "n"));
      await rename(join(directory, "t"), join(directory, "n", "t"));
      await rename(join(directory, "n"), join(directory, "t"));
    }
    await guard.start();
    await until(async () => (await readdir(directory)).length === 0);
    expect(await readdir(secret)).toHaveLength(300);
    expect(await readFile(join(secret, "kept7"), "utf8")).toBe("kept");
  });

  it("of hard links or sockets is one that is filled as well", async () => {
    const directory = await allocate();
    await writeFile(join(directory, "one"), "");
    for (let n = 0; n < ENTRIES_MAX; n++) await link(join(directory, "one"), join(directory, `l${n}`));
    await bindSocket(join(directory, "other.sock"));
    await guard.start();
    await until(async () => (await readdir(directory)).length === 0);
  });

  it("with fewer entries than the limit is left alone, whatever they are", async () => {
    const directory = await allocate();
    await mkdir(join(directory, "logs"));
    await writeFile(join(directory, "logs", "log"), "kept");
    for (let n = 0; n < ENTRIES_MAX - 20; n++) await writeFile(join(directory, `f${n}`), "");
    await guard.start();
    await bindSocket(join(directory, "vhost.sock"));
    await until(async () => (await modeOf(join(directory, "vhost.sock"))) === "775");
    expect(await readdir(directory)).toHaveLength(ENTRIES_MAX - 18);
    expect(guard.counts.hoardsEmptied).toBe(0);
  });
});

describe("names of any bytes", () => {
  const odd = (directory: string, n: number | string = 0) =>
    Buffer.concat([Buffer.from(`${directory}/`), Buffer.from([0xff, 0xfe, 0xc3]), Buffer.from(String(n))]);

  it("do not save a hoard from being emptied", async () => {
    const directory = await allocate();
    for (let n = 0; n < ENTRIES_MAX + 10; n++) await writeFile(odd(directory, n), "");
    await mkdir(odd(directory, "d"));
    await writeFile(Buffer.concat([odd(directory, "d/"), Buffer.from([0x80])]), "");
    await guard.start();
    await until(async () => (await readdir(directory)).length === 0);
  });

  it("do not hide what a sub-directory holds", async () => {
    const directory = await allocate();
    await mkdir(odd(directory));
    for (let n = 0; n < ENTRIES_MAX + 10; n++) await writeFile(odd(directory, `0/${n}`), "");
    await guard.start();
    await until(async () => (await readdir(directory)).length === 0);
  });

  it("do not keep a socket from its group", async () => {
    const directory = await allocate();
    await bindSocket(join(directory, "vhost.sock"));
    await rename(join(directory, "vhost.sock"), odd(directory));
    await guard.start();
    expect((await lstat(odd(directory))).mode & 0o777).toBe(0o775);
  });
});

describe("a pod with root", () => {
  const fill = async (top: string) => {
    await mkdir(join(top, "stray"));
    await writeFile(join(top, "stray", "below"), "");
    for (let n = 0; n < 20; n++) await writeFile(join(top, `f${n}`), "");
    for (let n = 0; n < 20; n++) await mkdir(join(top, `d${n}`));
  };

  it("that fills its allocation's directory loses what the daemon did not make there, and nothing else", async () => {
    const directory = await allocate();
    const other = await allocate();
    const top = join(directory, "..");
    await bindSocket(join(directory, "vhost.sock"));
    guard = newGuard({ namesOf: (id) => (top.endsWith(id) ? ["net1"] : undefined) });
    await fill(top);
    await guard.start();
    await until(async () => (await readdir(top)).length === 1);
    expect(await readdir(directory)).toEqual(["vhost.sock"]);
    expect([(await lstat(directory)).uid, await modeOf(directory)]).toEqual([107, "2770"]);
    // It goes on: with that allocation, and with others.
    for (const path of [directory, other]) {
      await bindSocket(join(path, "again.sock"));
      await until(async () => (await modeOf(join(path, "again.sock"))) === "775");
    }
  });

  it("does not cost another interface its directory, which ADD makes while what it filled is emptied", async () => {
    const directory = await allocate();
    const top = join(directory, "..");
    const allocationId = basename(top);
    const ownership = { owner: 107, group: 1500, mode: 0o2770 };
    const names = ["net1"];
    const added = Promise.withResolvers<void>();
    const add = () => {
      names.push("net2");
      ensureSocketDirectories({ root, allocationId, names: ["net2"], ownership }).then(
        added.resolve,
        added.reject,
      );
    };
    let isAdded = false;
    guard = newGuard({
      namesOf: () => {
        // It comes when the emptying lets others in.
        if (!isAdded) setImmediate(add);
        isAdded = true;
        return [...names];
      },
    });
    for (let n = 0; n < 1_000; n++) await writeFile(join(top, `f${n}`), "");
    await guard.start();
    await added.promise;
    await until(async () => guard.counts.hoardsEmptied === 1);
    await guard.close();
    expect((await readdir(top)).sort()).toEqual(["net1", "net2"]);
  });

  it("loses files and no directory while there is no record of its allocation", async () => {
    const directory = await allocate();
    const top = join(directory, "..");
    await fill(top);
    await guard.start();
    await until(async () => (await readdir(top)).length === 22);
    expect(await readdir(join(top, "stray"))).toEqual(["below"]);
  });

  it("is looked after in directories of its own too, as far as it may have them", async () => {
    const top = join(await allocate(), "..");
    guard = newGuard({ namesOf: () => ["net1"] });
    await guard.start();
    await mkdir(join(top, "own"));
    for (let n = 0; n < ENTRIES_MAX + 10; n++)
      await writeFile(join(top, "own", `f${n}`), "").catch((error: unknown) =>
        expect(systemCode(error)).toBe("ENOENT"),
      );
    // It may empty it before the last ones are written; those stay.
    await until(async () => (await readdir(join(top, "own"))).length < 10);
  });
});

describe("inodes that nobody sees", () => {
  it("lock out the pod that takes them by files that it unlinks and keeps open, until it gives them back", async () => {
    const [directory, innocent] = [await allocate(), await allocate()];
    let used = 100;
    guard = newGuard({
      inodes: () => ({ files: 131_072, ffree: 131_072 - used }),
      firstLockMs: 20,
      // What is taken within ten seconds counts, and all of it is taken once.
      clock: { ...systemClock, now: () => 0 },
    });
    await guard.start();
    await until(async () => {
      await writeFile(join(directory, "x"), "");
      await rm(join(directory, "x"));
      // Far from scarce.
      used = Math.min(20_000, used + 2_000);
      return (await lstat(directory)).uid === 0;
    });
    await bindSocket(join(innocent, "vhost.sock"));
    await until(async () => (await modeOf(join(innocent, "vhost.sock"))) === "775");
    await delay(100);
    expect([(await lstat(directory)).uid, (await lstat(innocent)).uid]).toEqual([0, 107]);
    used = 200;
    await until(async () => (await lstat(directory)).uid === 107);
    expect(guard.counts.hoardsEmptied).toBe(1);
  });
});

describe("a directory that was left as root's between two steps of its lock", () => {
  it("is given back to its pod all the same", async () => {
    const directory = await allocate();
    await chown(directory, 0, 1500);
    for (let n = 0; n < ENTRIES_MAX + 10; n++) await writeFile(join(directory, `f${n}`), "");
    guard = newGuard({ firstLockMs: 20, ownershipOf: () => ({ owner: 107, group: 1500, mode: 0o2770 }) });
    await guard.start();
    await until(async () => (await readdir(directory)).length === 0);
    await until(async () => (await lstat(directory)).uid === 107);
    expect(await modeOf(directory)).toBe("2770");
  });
});

describe("a lost event", () => {
  it("of a pod does no harm for long: the kernel's queue overflows when another makes more than are read", async () => {
    const [noisy, victim] = [await allocate(), await allocate()];
    const path = join(victim, "vhost.sock");
    let isSwept = false;
    const clock: Clock = {
      now: systemClock.now,
      monotonic: systemClock.monotonic,
      sleep: (ms, signal) => {
        if (ms !== 10_000) return systemClock.sleep(ms, signal);
        isSwept = true;
        return systemClock.sleep(50, signal);
      },
    };
    guard = newGuard({ clock });
    await guard.start();
    // Nothing is read while this process waits for its child.
    const { status } = spawnSync(process.execPath, ["-e", FLOOD, noisy, path]);
    expect(status).toBe(0);
    await until(async () => (await modeOf(path)) === "775");
    expect(isSwept).toBe(true);
  });
});

describe("the root", () => {
  it("is looked at again when it was gone for a while", async () => {
    await rename(root, `${root}-away`);
    const clock: Clock = {
      now: systemClock.now,
      monotonic: systemClock.monotonic,
      sleep: (ms, signal) => systemClock.sleep(ms === 5_000 ? 20 : ms, signal),
    };
    guard = newGuard({ clock });
    await guard.start();
    await rename(`${root}-away`, root);
    const directory = await allocate();
    await bindSocket(join(directory, "vhost.sock"));
    await until(async () => (await modeOf(join(directory, "vhost.sock"))) === "775");
  });
});

describe("the guard", () => {
  it("forgets allocations that are removed, and closes while a pod is busy", async () => {
    const directory = await allocate();
    await guard.start();
    await rm(join(directory, ".."), { recursive: true });
    const busy = await allocate();
    for (let n = 0; n < 50; n++) {
      await writeFile(join(busy, "x"), String(n));
      await rm(join(busy, "x"));
    }
    await guard.close();
    await guard.close();
  });
});

describe("the guard's sweep", () => {
  it("leaves no place unwatched, however many there are", async () => {
    const sweep = { ms: 0, next: Promise.withResolvers<void>() };
    const clock: Clock = {
      now: systemClock.now,
      monotonic: systemClock.monotonic,
      sleep: async (ms, signal) => {
        // The sweep is the longest sleep that a guard without offenders has.
        if (ms < 60_000) return systemClock.sleep(ms, signal);
        sweep.ms = ms;
        signal?.addEventListener("abort", () => sweep.next.resolve());
        await sweep.next.promise;
        sweep.next = Promise.withResolvers();
      },
    };
    const directories = [await allocate(), await allocate(), await allocate(), await allocate()];
    guard = newGuard({ clock });
    await guard.start();
    expect(sweep.ms).toBeGreaterThan(0);
    // Once: another sweep would wake those that the first one forgot.
    const { next } = sweep;
    next.resolve();
    await until(async () => sweep.next !== next);
    for (const directory of directories) await bindSocket(join(directory, "vhost.sock"));
    for (const directory of directories)
      await until(async () => (await modeOf(join(directory, "vhost.sock"))) === "775");
    for (const directory of directories)
      for (let n = 0; n < ENTRIES_MAX + 10; n++) await writeFile(join(directory, `f${n}`), "");
    // It may empty a directory before the last ones are written; those, and the socket, stay.
    for (const directory of directories) await until(async () => (await readdir(directory)).length <= 11);
  });
});

describe("while inodes are scarce", () => {
  const scarce = () => ({ files: 1000, ffree: 100 });

  it("a pod that binds its socket, stops and binds it again keeps its directory", async () => {
    const directory = await allocate();
    guard = newGuard({ inodes: scarce });
    await guard.start();
    const path = join(directory, "vhost.sock");
    for (let life = 0; life < 3; life++) {
      await rm(path, { force: true });
      await bindSocket(path);
      await until(async () => (await modeOf(path)) === "775");
    }
    // The guard has looked once more, after all that came before.
    await bindSocket(join(directory, "seen.sock"));
    await until(async () => (await modeOf(join(directory, "seen.sock"))) === "775");
    expect([(await lstat(directory)).uid, guard.counts.hoardsEmptied]).toEqual([107, 0]);
  });

  it("a pod that changes its directory all the time is locked out, but not for as long as they are", async () => {
    const directory = await allocate();
    guard = newGuard({ inodes: scarce });
    await guard.start();
    await until(async () => {
      await writeFile(join(directory, "x"), "");
      await rm(join(directory, "x"));
      return (await lstat(directory)).uid === 0;
    });
    // More than once where it was given back before anybody saw it taken.
    expect(guard.counts.hoardsEmptied).toBeGreaterThan(0);
    await until(async () => (await lstat(directory)).uid === 107);
  });

  it("a pod that hoards stays locked out until there are more", async () => {
    const directory = await allocate();
    let ffree = 100;
    let asked = 0;
    const inodes = () => {
      asked += 1;
      return { files: 1000, ffree };
    };
    for (let n = 0; n < ENTRIES_MAX + 10; n++) await writeFile(join(directory, `f${n}`), "");
    guard = newGuard({ inodes, firstLockMs: 20 });
    await guard.start();
    await until(async () => asked > 3);
    expect((await lstat(directory)).uid).toBe(0);
    ffree = 900;
    await until(async () => (await lstat(directory)).uid === 107);
  });
});

describe("an error of the file system", () => {
  const noInodes = () => {
    throw Object.assign(new Error("EIO"), { code: "EIO" });
  };

  it("does not end the pulse that looks into sub-directories", async () => {
    const directory = await allocate();
    await mkdir(join(directory, "below"));
    let asked = 0;
    guard = newGuard({
      inodes: () => {
        asked += 1;
        return noInodes();
      },
    });
    await guard.start();
    await until(async () => asked > 2);
    // The guard may have emptied it before the last one is made.
    const gone = (error: unknown) => expect(systemCode(error)).toBe("ENOENT");
    for (let n = 0; n < ENTRIES_MAX + 10; n++)
      await writeFile(join(directory, "below", `f${n}`), "").catch(gone);
    // It counts before it empties. What was made in that moment may stay, and what it lies in.
    await until(async () => guard.counts.hoardsEmptied > 0);
    const left = () => readdir(directory, { recursive: true }).catch(() => undefined);
    await until(async () => ((await left())?.length ?? Number.POSITIVE_INFINITY) <= 11);
  });

  it("delays a lock's end, which comes all the same", async () => {
    const directory = await allocate();
    let asked = 0;
    const inodes = () => {
      asked += 1;
      return asked <= 2 ? noInodes() : { files: 1000, ffree: 900 };
    };
    for (let n = 0; n < ENTRIES_MAX + 10; n++) await writeFile(join(directory, `f${n}`), "");
    guard = newGuard({ inodes, firstLockMs: 20 });
    await guard.start();
    await until(async () => (await lstat(directory)).uid === 107 && asked > 2);
  });

  it("makes a look fail, which is made again", async () => {
    const directory = await allocate();
    let now = () => {};
    const clock: Clock = {
      now: systemClock.now,
      monotonic: systemClock.monotonic,
      sleep: async (ms, signal) => {
        if (ms !== 5_000) return systemClock.sleep(ms, signal);
        await new Promise<void>((resolve) => {
          now = resolve;
          signal?.addEventListener("abort", () => resolve());
        });
      },
    };
    let isBroken = true;
    const ownershipOf = () => {
      if (isBroken) throw new Error("broken");
      return undefined;
    };
    guard = newGuard({ clock, ownershipOf });
    await bindSocket(join(directory, "vhost.sock"));
    await guard.start();
    isBroken = false;
    await until(async () => {
      now();
      return (await modeOf(join(directory, "vhost.sock"))) === "775";
    });
  });
});
