import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { sourcesWithBackports } from "./apt-sources.ts";

let etcApt: string;

beforeEach(async () => {
  etcApt = await mkdtemp(join(tmpdir(), "apt-sources-"));
  await mkdir(join(etcApt, "sources.list.d"));
});

afterEach(async () => {
  await rm(etcApt, { recursive: true, force: true });
});

async function sourcesOf(files: Readonly<Record<string, string>>): Promise<string[]> {
  for (const [name, text] of Object.entries(files)) await writeFile(join(etcApt, name), text);
  return (await sourcesWithBackports(etcApt)).map(({ name, text }) => `${name}: ${text.trim()}`);
}

test("a deb822 source keeps its address and inline key, with only the suite replaced", async () => {
  const key = "Signed-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n mDMEXXX";
  const sources = await sourcesOf({
    "sources.list.d/debian.sources": `# ours\nTypes: deb\nURIs: http://mirror.test/debian\nSuites: bookworm\n bookworm-updates\nComponents: main contrib\n${key}\n`,
  });
  expect(sources).toEqual([
    `lab-0.sources: Types: deb\nURIs: http://mirror.test/debian\nSuites: bookworm\n bookworm-updates\nComponents: main contrib\n${key}`,
    `lab-1.sources: Types: deb\nURIs: http://mirror.test/debian\nSuites: bookworm-backports\nComponents: main contrib\n${key}`,
  ]);
});

test("a one-line source keeps its options", async () => {
  const sources = await sourcesOf({
    "sources.list":
      "deb [arch=amd64 signed-by=/usr/share/keyrings/bookworm.gpg] http://bookworm.test/debian bookworm main # note\n" +
      "deb-src http://bookworm.test/debian bookworm main\n",
  });
  expect(sources[1]).toBe(
    "lab-1.list: deb [arch=amd64 signed-by=/usr/share/keyrings/bookworm.gpg] http://bookworm.test/debian bookworm-backports main # note",
  );
  expect(sources).toHaveLength(2);
});

test("a machine that has backports already gets no second entry", async () => {
  const sources = await sourcesOf({
    "sources.list":
      "deb http://a.test/debian bookworm main\ndeb http://a.test/debian bookworm-backports main\n",
  });
  expect(sources).toHaveLength(2);
});

test("sources of others, disabled ones and other releases are left out", async () => {
  const sources = await sourcesOf({
    "sources.list":
      "deb http://a.test/debian/ bookworm main\ndeb http://b.test/linux/debian bookworm stable\n",
    "sources.list.d/off.sources":
      "Enabled: no\nTypes: deb\nURIs: http://c.test/debian\nSuites: bookworm\nComponents: main\n",
    "sources.list.d/next.sources":
      "Types: deb\nURIs: http://d.test/debian\nSuites: trixie\nComponents: main\n",
    "sources.list.d/readme.txt": "deb http://e.test/debian bookworm main\n",
  });
  expect(sources).toEqual([
    "lab-0.list: deb http://a.test/debian/ bookworm main",
    "lab-1.list: deb http://a.test/debian/ bookworm-backports main",
  ]);
});

test("no source of Debian 12 is said by name", async () => {
  await expect(sourcesOf({ "sources.list": "deb http://a.test/debian trixie main\n" })).rejects.toThrow(
    "no source of Debian 12's main archive",
  );
});
