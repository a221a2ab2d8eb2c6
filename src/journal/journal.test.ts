import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  appendFile,
  type FileHandle,
  mkdir,
  mkdtemp,
  open,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  symlink,
  truncate,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { changeEntries, writeJournal } from "../../test/stand-in/records/journal-files.ts";
import { silentLogger } from "../logging/logger.ts";
import { Journal, type JournalOptions } from "./journal.ts";
import { readJournal } from "./read-journal.ts";

const FORMAT = {
  version: 2,
  parse: (value: unknown) => {
    if (typeof value !== "string") throw new Error("it is not a text");
    return value;
  },
};
let directory: string;
let file: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "kvu-journal-"));
  file = join(directory, "journal");
});
afterEach(async () => {
  vi.restoreAllMocks();
  await rm(directory, { recursive: true });
});

const start = (options: Partial<JournalOptions<string>> = {}) =>
  Journal.open({ directory, ...FORMAT, durable: true, logger: silentLogger, ...options });

/** What the next start finds. */
async function found(): Promise<Readonly<Record<string, string>>> {
  return Object.fromEntries((await start()).content.values);
}

/** The methods that all open files share, to make them fail as a disk does. */
async function fileMethods(): Promise<FileHandle> {
  const handle = await open(file, "r");
  await handle.close();
  return Object.getPrototypeOf(handle);
}

const systemError = (code: string) => Object.assign(new Error(`${code}: the disk says no`), { code });

describe("a journal", () => {
  it("has the last value of each key after a start", async () => {
    const { journal, content } = await start();
    expect([...content.values]).toEqual([]);
    await journal.append("a", "1");
    await journal.append("b", 'with "quotes"\nand a line');
    await journal.append("a", "2");
    await journal.append("c", "3");
    await journal.append("c", undefined);
    expect(await found()).toEqual({ a: "2", b: 'with "quotes"\nand a line' });
    expect((await stat(file)).mode & 0o777).toBe(0o600);
  });

  it("waits for the disk once for a burst of appends, and not at all where nothing has to survive a power cut", async () => {
    for (const [durable, syncs] of [
      [true, 1],
      [false, 0],
    ] as const) {
      const { journal } = await start({ durable });
      const datasync = vi.spyOn(await fileMethods(), "datasync");
      const keys = Array.from({ length: 50 }, (_, index) => `key-${index}`);
      await Promise.all(keys.map((key) => journal.append(key, "x")));
      expect(datasync).toHaveBeenCalledTimes(syncs);
      expect(Object.keys(await found())).toEqual(keys);
      vi.restoreAllMocks();
    }
  });

  it("can be read while it is written, and is not changed by that", async () => {
    const { journal } = await start();
    await journal.append("a", "1");
    await appendFile(file, "unfinished");
    const before = await readFile(file);
    expect([...(await readJournal(directory, FORMAT)).values]).toEqual([["a", "1"]]);
    expect(await readFile(file)).toEqual(before);
    expect([...(await readJournal(join(directory, "missing"), FORMAT)).values]).toEqual([]);
  });
});

describe("a journal that was cut off", () => {
  it("at any byte has all entries before it, and accepts new ones", async () => {
    const { journal } = await start();
    await journal.append("a", "1");
    const { size } = await stat(file);
    await journal.append("b", "2");
    const whole = await readFile(file);
    for (let cut = size; cut < whole.length; cut++) {
      await writeFile(file, whole.subarray(0, cut));
      const again = await start();
      expect([...again.content.values]).toEqual([["a", "1"]]);
      expect(again.content.damaged).toEqual([]);
      await again.journal.append("c", "3");
      expect(await found()).toEqual({ a: "1", c: "3" });
    }
  });

  it("says so in the log", async () => {
    const { journal } = await start();
    await journal.append("a", "1");
    await truncate(file, (await stat(file)).size - 3);
    const lines: string[] = [];
    const warn = (_: unknown, line: string) => lines.push(line);
    await start({ logger: { ...silentLogger, warn: warn as never } });
    expect(lines).toEqual(["an unfinished record is dropped"]);
  });
});

describe("a damaged entry", () => {
  it("is set aside and reported at every start, with its key's earlier value unused and the rest used", async () => {
    const { journal } = await start();
    for (const [key, value] of ["a1", "b1", "b2", "c1"]) await journal.append(key ?? "", value);
    await changeEntries(directory, (line) => line.replace('"b","value":"2"', '"b","value":"3"'));
    for (let time = 0; time < 2; time++) {
      const { content } = await start();
      expect([...content.values]).toEqual([
        ["a", "1"],
        ["c", "1"],
      ]);
      expect(content.damaged).toMatchObject([{ text: expect.stringContaining('"b","value":"3"') }]);
    }
    const again = await start();
    await again.journal.append("b", "4");
    expect(await found()).toEqual({ a: "1", b: "4", c: "1" });
    expect(await readFile(join(directory, "damaged"), "utf8")).toContain('"value":"3"');
  });

  it("loses no other entry, whichever bit of a line is flipped", async () => {
    const { journal } = await start();
    for (const key of ["a", "b", "c"]) await journal.append(key, "1");
    const whole = await readFile(file);
    const from = whole.indexOf('{"key":"b"') - 9;
    for (let at = from; at < whole.indexOf("\n", from); at++) {
      const bytes = Buffer.from(whole);
      bytes.writeUInt8(bytes.readUInt8(at) ^ 1, at);
      await writeFile(file, bytes);
      await rm(join(directory, "damaged"), { force: true });
      const { content } = await start();
      expect([...content.values.keys()], `byte ${at - from}`).toEqual(["a", "c"]);
      expect(content.damaged).toHaveLength(1);
    }
  });

  it("includes one of another shape whose checksum is right", async () => {
    await writeJournal(directory, 2, { a: "1", b: 7 });
    const { content } = await start();
    expect([...content.values]).toEqual([["a", "1"]]);
    const aside = join(directory, "damaged");
    expect(content.damaged).toMatchObject([{ reason: "it is not a text", file: aside }]);
    expect(await readFile(aside, "utf8")).toContain('"key":"b"');
  });

  it("in the header loses no entry", async () => {
    await writeJournal(directory, 2, { a: "1" });
    await writeFile(file, (await readFile(file, "utf8")).replace('{"journal"', '{"jour"nal'));
    const { content } = await start();
    expect([[...content.values], content.damaged.length]).toEqual([[["a", "1"]], 1]);
    expect(await found()).toEqual({ a: "1" });
  });
});

describe("a journal of another release", () => {
  it("that is newer is refused naming both versions, and is not changed", async () => {
    await writeJournal(directory, 3, { a: { of: "another shape" } });
    const before = await readFile(file, "utf8");
    const refusal = {
      code: "record-unreadable",
      message: expect.stringMatching(/version 3, .* up to 2 \(.*journal\); run the newer release again/),
    };
    await expect(start()).rejects.toMatchObject(refusal);
    await expect(readJournal(directory, FORMAT)).rejects.toMatchObject(refusal);
    expect(await readFile(file, "utf8")).toBe(before);
    await writeFile(file, '{"journal":2,"version":1}\nin another format\n');
    await expect(start()).rejects.toMatchObject({ code: "record-unreadable" });
  });
});

describe("a disk that refuses", () => {
  it.each(["ENOSPC", "EDQUOT", "EIO"])(
    "in the middle of a write (%s): the append fails without a trace, later ones work",
    async (code) => {
      const { journal } = await start();
      await journal.append("a", "1");
      const before = await readFile(file);
      const methods = await fileMethods();
      const { write } = methods;
      vi.spyOn(methods, "write").mockImplementationOnce(async function (this: FileHandle, ...args: never[]) {
        const [bytes, offset, , position] = args as unknown as [Buffer, number, number, number];
        await Reflect.apply(write, this, [bytes, offset, 10, position]);
        throw systemError(code);
      } as never);
      await expect(journal.append("b", "2")).rejects.toMatchObject({
        code: "record-unwritable",
        message: expect.stringContaining(code),
      });
      expect(await readFile(file)).toEqual(before);
      await journal.append("c", "3");
      expect(await found()).toEqual({ a: "1", c: "3" });
    },
  );

  it("to sync: what was written is not counted as saved", async () => {
    const { journal } = await start();
    vi.spyOn(await fileMethods(), "datasync").mockRejectedValueOnce(systemError("EIO"));
    await expect(journal.append("a", "1")).rejects.toMatchObject({ code: "record-unwritable" });
    expect(await found()).toEqual({});
  });

  it("also to truncate a failed write: the next append does that", async () => {
    const { journal } = await start();
    await journal.append("a", "1");
    const methods = await fileMethods();
    vi.spyOn(methods, "datasync").mockRejectedValueOnce(systemError("EIO"));
    vi.spyOn(methods, "truncate").mockRejectedValueOnce(systemError("EROFS"));
    await expect(journal.append("b", "2")).rejects.toThrow("EIO");
    await journal.append("c", "3");
    expect(await found()).toEqual({ a: "1", c: "3" });
  });

  it("to be compacted still accepts entries", async () => {
    const { journal } = await start({ compactAbove: 200 });
    vi.spyOn(await fileMethods(), "sync").mockRejectedValue(systemError("ENOSPC"));
    for (let value = 0; value < 40; value++) await journal.append("a", String(value));
    expect(await readdir(directory)).toEqual(["journal"]);
    expect(await found()).toEqual({ a: "39" });
  });

  it("at the start is no error until something is appended, and may recover", async () => {
    vi.spyOn(await methodsOfAnyFile(), "sync").mockRejectedValueOnce(systemError("ENOSPC"));
    const { journal } = await start();
    expect(await readdir(directory)).toEqual([]);
    await journal.append("a", "1");
    expect(await found()).toEqual({ a: "1" });
  });

  it("has lost the file: nothing is reported as saved", async () => {
    const { journal } = await start();
    await journal.append("a", "1");
    await rename(file, `${file}.away`);
    await expect(journal.append("b", "2")).rejects.toMatchObject({ code: "record-unwritable" });
    await writeFile(file, "");
    await expect(journal.append("b", "2")).rejects.toMatchObject({ code: "record-unwritable" });
  });
});

async function methodsOfAnyFile(): Promise<FileHandle> {
  const handle = await open(import.meta.filename, "r");
  await handle.close();
  return Object.getPrototypeOf(handle);
}

describe("compaction", () => {
  it("keeps the file small and loses no entry appended meanwhile", async () => {
    const { journal } = await start({ compactAbove: 1_000 });
    const appends: Promise<void>[] = [];
    for (let value = 0; value < 2_000; value++) {
      appends.push(journal.append(`key-${value % 7}`, String(value)));
      if (value % 10 === 0) await Promise.race(appends.splice(0));
    }
    await Promise.all(appends);
    const expected = Array.from({ length: 7 }, (_, index) => [
      `key-${(1993 + index) % 7}`,
      `${1993 + index}`,
    ]);
    expect(await found()).toEqual(Object.fromEntries(expected));
    expect((await stat(file)).size).toBeLessThan(10_000);
    expect(await readdir(directory)).toEqual(["journal"]);
  });

  it("writes what was appended, also where the disk has changed it since", async () => {
    const { journal } = await start({ compactAbove: 400 });
    await journal.append("a", "1");
    await changeEntries(directory, (line) => line.replace('"1"', '"7"'));
    for (let value = 0; value < 30; value++) await journal.append("b", String(value));
    expect(await found()).toEqual({ a: "1", b: "29" });
  });

  it("sets aside what could not be when the journal was opened", async () => {
    const { journal } = await start();
    await journal.append("a", "1");
    await changeEntries(directory, (line) => line.replace('"1"', '"7"'));
    vi.spyOn(await fileMethods(), "sync").mockRejectedValueOnce(systemError("EROFS"));
    const again = await start({ compactAbove: 100 });
    expect(again.content.damaged).toHaveLength(1);
    for (let value = 0; value < 9; value++) await again.journal.append("b", "2");
    expect(await readFile(join(directory, "damaged"), "utf8")).toContain('"7"');
    expect(await found()).toEqual({ b: "2" });
  });

  it("that was killed before its last step leaves the old file", async () => {
    const { journal } = await start();
    await journal.append("a", "1");
    await writeFile(`${file}.new`, '{"journal":1,"version":2}\nhalf a li');
    expect(await found()).toEqual({ a: "1" });
    expect(await readdir(directory)).toEqual(["journal"]);
  });

  it("does not bring back what a failed append left behind", async () => {
    const { journal } = await start({ compactAbove: 200 });
    for (let value = 0; value < 3; value++) await journal.append("a", String(value));
    const methods = await fileMethods();
    vi.spyOn(methods, "datasync").mockRejectedValueOnce(systemError("EIO"));
    vi.spyOn(methods, "truncate").mockRejectedValue(systemError("EIO"));
    await expect(journal.append("b", "2".repeat(200))).rejects.toThrow("EIO");
    vi.restoreAllMocks();
    for (let value = 3; value < 9; value++) await journal.append("a", String(value));
    expect(await found()).toEqual({ a: "8" });
  });
});

describe("a process that is killed", () => {
  const WRITER = resolve(import.meta.dirname, "../../test/stand-in/records/append-forever.ts");

  it("at any moment loses nothing that was confirmed", async () => {
    for (let time = 0; time < 8; time++) {
      const writer = spawn(process.execPath, [WRITER, directory], { stdio: ["ignore", "pipe", "inherit"] });
      let saved = "";
      writer.stdout.setEncoding("utf8").on("data", (text: string) => {
        saved += text;
      });
      await expect.poll(() => saved.split("\n").length, { timeout: 30_000 }).toBeGreaterThan(20 * (time + 1));
      writer.kill("SIGKILL");
      await once(writer, "close");
      const { content } = await start();
      expect(content.damaged).toEqual([]);
      for (const line of saved.split("\n").slice(0, -1)) {
        const [key = "", value] = line.split(" ");
        expect(Number(content.values.get(key))).toBeGreaterThanOrEqual(Number(value));
      }
    }
  }, 120_000);
});

describe("odd files in its directory", () => {
  it("do not stop the start", async () => {
    await mkdir(join(directory, "x.json"));
    await mkdir(join(directory, "damaged"));
    await symlink("loop", join(directory, "loop"));
    await writeFile(join(directory, "x".repeat(255)), "");
    const { journal, content } = await start();
    expect(content.damaged).toMatchObject([{ file: join(directory, "damaged") }]);
    await journal.append("a", "1");
    await changeEntries(directory, (line) => line.replace("1", "2"));
    expect(await found()).toEqual({});
  });

  it.each([
    ["a directory", () => mkdir(join(directory, "journal/below"), { recursive: true })],
    ["a link to itself", () => symlink("journal", file)],
  ])("in the journal's place are set aside: %s", async (_, make) => {
    await make();
    const { journal, content } = await start();
    expect(content.damaged).toMatchObject([{ reason: "it is not a file" }]);
    await journal.append("a", "1");
    expect(await found()).toEqual({ a: "1" });
  });
});
