import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { describe, expect, it } from "vitest";

const SRC = join(import.meta.dirname, "../../src");

/** Rooms by tier (docs/architecture.md): imports go to lower numbers only, or stay in the room. */
const TIERS: Readonly<Record<string, number>> = {
  failure: 0,
  clock: 0,
  names: 0.5,
  turns: 0.5,
  "port-settings": 0.5,
  "durable-file": 1,
  "watch-file": 1,
  "private-socket": 1,
  logging: 1,
  grpc: 2,
  kubelet: 2.5,
  ovsdb: 2,
  "vpp-api": 2,
  openflow: 2,
  config: 3,
  records: 3,
  "socket-directory": 3,
  "device-info": 3,
  dataplane: 3,
  allocation: 3.5,
  attachment: 3.5,
  "directory-guard": 3.5,
  "device-plugin": 4,
  cni: 4,
  announcement: 4,
  sidecar: 4,
  reconcile: 4,
  observe: 4,
  events: 4,
  "node-status": 4.5,
  diagnosis: 4.6,
  "status-page": 4.7,
  daemon: 5,
  "mount-root": 5,
  "cni-installer": 5,
  ctl: 5,
};

const files = readdirSync(SRC, { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(".ts"));
const sources = files.filter((file) => !file.endsWith(".test.ts"));

function importsOf(file: string): string[] {
  const text = readFileSync(join(SRC, file), "utf8");
  return [...text.matchAll(/(?:from|import)\s+"(\.[^"]+)"/g)].map(([, path = ""]) =>
    relative(SRC, join(SRC, dirname(file), path)),
  );
}

const roomOf = (file: string): string => file.split("/")[0] ?? "";

describe("the house's layout", () => {
  it("every room has a tier", () => {
    const unknown = [...new Set(files.map(roomOf))].filter((room) => !(room in TIERS));
    expect(unknown, "give the room a tier here and in docs/architecture.md").toEqual([]);
  });

  it("imports go down only and stay below src", () => {
    const wrong = sources.flatMap((file) =>
      importsOf(file)
        // A program may know its own release.
        .filter((target) => target !== "../package.json" || !file.endsWith("main.ts"))
        .filter((target) => {
          const to = TIERS[roomOf(target)];
          const from = TIERS[roomOf(file)];
          return to === undefined || from === undefined || (roomOf(target) !== roomOf(file) && to >= from);
        })
        .map((target) => `${file} imports ${target}`),
    );
    expect(wrong).toEqual([]);
  });

  it("no file imports itself in a circle", () => {
    const circles: string[] = [];
    const done = new Set<string>();
    const visit = (file: string, path: readonly string[]): void => {
      if (path.includes(file)) circles.push([...path.slice(path.indexOf(file)), file].join(" -> "));
      if (done.has(file) || path.includes(file)) return;
      for (const target of importsOf(file)) visit(target, [...path, file]);
      done.add(file);
    };
    for (const file of sources) visit(file, []);
    expect(circles).toEqual([]);
  });

  it("no name says nothing", () => {
    const vague = /(^|\/)(utils?|common|helpers?|misc|types|consts|constants|index)(\/|\.ts$)/;
    expect(files.filter((file) => vague.test(file))).toEqual([]);
  });

  it("no source file has more than 300 lines", () => {
    const long = sources.filter((file) => readFileSync(join(SRC, file), "utf8").split("\n").length > 301);
    expect(long).toEqual([]);
  });

  it("only programs read the environment", () => {
    const readers = sources.filter(
      (file) => !file.endsWith("main.ts") && /process\.env/.test(readFileSync(join(SRC, file), "utf8")),
    );
    expect(readers).toEqual([]);
  });

  it("directories are removed recursively in no other way than the one that follows no link", () => {
    const wrong = sources.filter((file) =>
      /recursive: true, force|rmSync|rimraf/.test(readFileSync(join(SRC, file), "utf8")),
    );
    expect(wrong).toEqual([]);
  });

  it("documents the same tiers", () => {
    const text = readFileSync(join(SRC, "../docs/architecture.md"), "utf8");
    expect(Object.keys(TIERS).filter((room) => !text.includes(`\`${room}\``))).toEqual([]);
  });
});
