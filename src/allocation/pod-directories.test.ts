import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import {
  chmod,
  chown,
  lstat,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rename,
  rm,
  symlink,
  utimes,
  writeFile,
} from "node:fs/promises";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { silentLogger } from "../logging/logger.ts";
import { newAllocationId } from "../names/allocation-id.ts";
import { type Clock, systemClock } from "../sync/clock.ts";
import { PodDirectories } from "./pod-directories.ts";
import { removeAllocationDirectory } from "./set-aside.ts";
import { ensureSocketDirectories } from "./socket-directories.ts";

let top: string;
let root: string;
let directories: PodDirectories;
let servers: Server[];

beforeEach(async () => {
  top = await mkdtemp(join(tmpdir(), "kvu-pods-"));
  await chmod(top, 0o755);
  root = join(top, "root");
  await mkdir(root);
  servers = [];
  directories = newDirectories();
});
afterEach(async () => {
  await directories.close();
  for (const server of servers) server.close();
  await rm(top, { recursive: true });
});

function newDirectories(clock: Clock = systemClock): PodDirectories {
  return new PodDirectories({ root, clock, logger: silentLogger });
}

/** Number of this process' inotify watch on each inode: a look renews it. */
async function watchesByInode(): Promise<ReadonlyMap<number, string>> {
  const infos = (await readdir("/proc/self/fdinfo")).map((fd) =>
    readFile(join("/proc/self/fdinfo", fd), "utf8").catch(() => ""),
  );
  const watches = (await Promise.all(infos)).join("").matchAll(/^inotify wd:(\w+) ino:(\w+)/gm);
  return new Map([...watches].map(([, wd = "", ino]) => [Number.parseInt(ino ?? "", 16), wd]));
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
const LONG = { timeout: 30_000 };
const untilMode = (path: string, mode: string) => expect.poll(() => modeOf(path), LONG).toBe(mode);

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

describe("a socket made with umask 022", () => {
  it("becomes its group's as soon as it is bound", async () => {
    const directory = await allocate();
    await directories.start();
    await bindSocket(join(directory, "vhost.sock"));
    await untilMode(join(directory, "vhost.sock"), "775");
    expect(directories.socketsOpened).toBe(1);
  });

  it("becomes its group's in a directory that was made after the start, and each time it is bound again", async () => {
    await directories.start();
    const directory = await allocate("sockets-00000");
    const path = join(directory, "vhost.sock");
    for (let life = 0; life < 3; life++) {
      await rm(path, { force: true });
      await bindSocket(path);
      await untilMode(path, "775");
    }
  });

  it("becomes its group's when it is bound under another name and renamed", async () => {
    const directory = await allocate();
    await directories.start();
    await bindSocket(join(directory, "new.sock"));
    await rename(join(directory, "new.sock"), join(directory, "vhost.sock"));
    await untilMode(join(directory, "vhost.sock"), "775");
  });

  it("is its group's when start resolves, where it was there before", async () => {
    const directory = await allocate();
    await bindSocket(join(directory, "vhost.sock"));
    await directories.start();
    expect(await modeOf(join(directory, "vhost.sock"))).toBe("775");
  });

  it("becomes its group's in a directory that was removed and made again", async () => {
    const directory = await allocate();
    await directories.start();
    await rename(directory, join(top, "removed"));
    const allocationId = dirname(directory).split("/").at(-1) ?? "";
    const ownership = { owner: 107, group: 1500, mode: 0o2770 };
    await ensureSocketDirectories({ root, allocationId, names: ["net1"], ownership });
    await bindSocket(join(directory, "vhost.sock"));
    await untilMode(join(directory, "vhost.sock"), "775");
  });

  it("stays as it is where the pool's mode gives the group nothing, or the group is another", async () => {
    const closed = await allocate("net1", 0o2700);
    await bindSocket(join(closed, "vhost.sock"));
    const other = await allocate();
    await bindSocket(join(other, "vhost.sock"));
    await chown(join(other, "vhost.sock"), 107, 1600);
    await directories.start();
    expect(await modeOf(join(closed, "vhost.sock"))).toBe("755");
    expect(await modeOf(join(other, "vhost.sock"))).toBe("755");
  });

  it("is all that is changed: no file, no FIFO, no link's target, no socket elsewhere", async () => {
    const elsewhere = join(top, "elsewhere.sock");
    await bindSocket(elsewhere);
    await chown(elsewhere, 0, 1500);
    const linked = await allocate();
    await symlink(elsewhere, join(linked, "vhost.sock"));
    const file = await allocate();
    await writeFile(join(file, "vhost.sock"), "", { mode: 0o600 });
    const fifo = await allocate();
    spawnSync("mkfifo", ["-m", "600", join(fifo, "vhost.sock")]);
    const deeper = await allocate();
    await mkdir(join(deeper, "below"));
    await bindSocket(join(deeper, "below", "vhost.sock"));
    for (const path of [file, fifo]) await chown(join(path, "vhost.sock"), 107, 1500);
    // A pod's root puts a link in the place of its directory.
    const swapped = await allocate();
    const target = join(top, "target");
    await mkdir(target, { mode: 0o2770 });
    await bindSocket(join(target, "vhost.sock"));
    await chown(target, 107, 1500);
    await rm(swapped, { recursive: true });
    await symlink(target, swapped);
    await directories.start();
    directories.check();
    const seen = await allocate();
    await bindSocket(join(seen, "vhost.sock"));
    await untilMode(join(seen, "vhost.sock"), "775");
    expect(await modeOf(elsewhere)).toBe("755");
    for (const path of [file, fifo]) expect(await modeOf(join(path, "vhost.sock"))).toBe("600");
    for (const path of [join(deeper, "below"), target])
      expect(await modeOf(join(path, "vhost.sock"))).toBe("755");
    expect(directories.socketsOpened).toBe(1);
  });

  it("is never connected to", async () => {
    const directory = await allocate();
    await bindSocket(join(directory, "vhost.sock"));
    let clients = 0;
    servers[0]?.on("connection", () => {
      clients += 1;
    });
    await directories.start();
    expect(directories.socketsOpened).toBe(1);
    await new Promise((resolve) => setImmediate(resolve));
    expect(clients).toBe(0);
  });

  it("becomes its group's at the next check where the watch missed it", async () => {
    const directory = await allocate();
    // No look comes that a change asks for.
    directories = newDirectories({
      ...systemClock,
      sleep: (_ms, signal) =>
        new Promise((_resolve, reject) => signal?.addEventListener("abort", () => reject(signal.reason))),
    });
    await directories.start();
    await bindSocket(join(directory, "vhost.sock"));
    await expect
      .poll(() => {
        directories.check();
        return modeOf(join(directory, "vhost.sock"));
      }, LONG)
      .toBe("775");
  });

  it("costs a check no look at directories that have not changed", async () => {
    const [unchanged, changed] = [dirname(await allocate()), dirname(await allocate())];
    for (const path of [unchanged, changed]) await utimes(path, 1, 1);
    await directories.start();
    const before = await watchesByInode();
    const renewed = async (path: string) => {
      const { ino } = await lstat(path);
      return (await watchesByInode()).get(ino) !== before.get(ino);
    };
    await mkdir(join(changed, "net2"));
    await expect
      .poll(async () => {
        directories.check();
        return [await renewed(root), await renewed(changed)];
      }, LONG)
      .toEqual([true, true]);
    expect(await renewed(unchanged)).toBe(false);
  });

  it("becomes its group's while another pod makes more events than the kernel's queue holds", async () => {
    const flooded = await allocate();
    const directory = await allocate();
    await directories.start();
    const path = join(directory, "vhost.sock");
    // Blocks this process, so that no events are read meanwhile.
    spawnSync(process.execPath, ["-e", FLOOD, flooded, path]);
    await untilMode(path, "775");
  });
});

describe("what was set aside", () => {
  const setAside = (directory: string) =>
    removeAllocationDirectory(root, dirname(directory).split("/").at(-1) ?? "");
  const untilEmpty = () => expect.poll(() => readdir(root), LONG).toEqual([]);

  it("is removed in the background", async () => {
    const directory = await allocate();
    await directories.start();
    for (let n = 0; n < 300; n++) await writeFile(join(directory, `f${n}`), "");
    await setAside(directory);
    expect(existsSync(directory)).toBe(false);
    await untilEmpty();
  });

  it("is removed after a restart, where a killed daemon left it", async () => {
    await setAside(await allocate());
    await directories.start();
    await untilEmpty();
  });

  it("is tried again while a process in a pod, as root, still fills it, and delays no other removal", async () => {
    const directory = await allocate();
    const pauses: (() => void)[] = [];
    const clock: Clock = {
      // Each look at the clock is a tenth of a second later, so that an attempt is over soon.
      now: systemClock.now,
      monotonic: () => (now += 100),
      sleep: async (ms, signal) => {
        if (ms < 1_000) return systemClock.sleep(ms, signal);
        await new Promise<void>((resolve, reject) => {
          pauses.push(resolve);
          signal?.addEventListener("abort", () => reject(signal.reason));
        });
      },
    };
    let now = 0;
    for (let n = 0; n < 100; n++) await writeFile(join(directory, `f${n}`), "");
    await setAside(directory);
    const other = await allocate();
    await setAside(other);
    directories = newDirectories(clock);
    await directories.start();
    await expect.poll(() => readdir(root).then((names) => names.length), LONG).toBe(1);
    await expect
      .poll(() => {
        for (const resume of pauses.splice(0)) resume();
        return readdir(root);
      }, LONG)
      .toEqual([]);
  });

  it("stops being removed when the daemon ends", async () => {
    const directory = await allocate();
    for (let n = 0; n < 2_000; n++) await writeFile(join(directory, `f${n}`), "");
    await setAside(directory);
    await directories.start();
    await directories.close();
    expect(await readdir(root)).toHaveLength(1);
  });
});
