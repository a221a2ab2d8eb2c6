import { readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { differences } from "../churn/compare.ts";
import type { Dice } from "../churn/dice.ts";
import type { SharedSwitch } from "../churn/shared-switch.ts";
import { waitUntil } from "../machine/wait-until.ts";
import type { Site } from "./site.ts";

/** What becomes of the text of a record's file. */
type Damage = (text: string, dice: Dice) => string | Buffer;

const DAMAGES: readonly [readonly [string, Damage], ...(readonly [string, Damage])[]] = [
  ["truncated", (text, dice) => text.slice(0, dice.below(text.length))],
  ["bit-flipped", flipBit],
  ["of version 0", (text) => withVersion(text, 0)],
];
/** Some looks of the reconciler, in which it could do something wrong. */
const WATCHED_MS = 3_000;
const LIMIT_MS = 180_000;

/**
 * A record of a living pod is damaged while no daemon runs. The daemon must leave everything as it is: the pod lives on.
 * Then the operator puts the record back, from a copy.
 * @returns what was done
 */
export async function tearRecord(site: Site, shared: SharedSwitch, dice: Dice): Promise<string | undefined> {
  const { node, churn } = site;
  const file = await anyRecord(site, dice);
  if (file === undefined) return undefined;
  const [what, damage] = dice.pick(DAMAGES);
  await node.killDaemon();
  const whole = await readFile(file, "utf8");
  await writeFile(file, damage(whole, dice));
  await node.startDaemon();
  await delay(WATCHED_MS);
  let left: readonly string[] = [];
  await waitUntil(
    async () => {
      const all = await differences(churn, await shared.view());
      left = all.filter((each) => !each.includes(basename(file)) || !each.includes("records"));
      return left.length === 0;
    },
    {
      what: `nothing but ${file}, which is ${what}, differs`,
      limitMs: LIMIT_MS,
      everyMs: 200,
      detail: () => left.join("; "),
    },
  );
  await node.killDaemon();
  await rm(`${file}.damaged`, { force: true });
  await writeFile(`${file}.copy`, whole, { mode: 0o600 });
  await rename(`${file}.copy`, file);
  await node.startDaemon();
  return `${basename(join(file, ".."))} record ${what}`;
}

/** Of an allocation or an attachment of a pod that lives. */
async function anyRecord({ node, churn }: Site, dice: Dice): Promise<string | undefined> {
  const pods = [...churn.pods, ...churn.residents];
  const ids = pods.map(({ hostPath }) => basename(hostPath));
  const containers = pods.map(({ sandbox }) => sandbox.containerId);
  const files = await Promise.all(
    ["allocations", "ports"].map(async (store) => {
      const directory = join(node.recordsDirectory, store);
      return (await readdir(directory)).sort().map((name) => join(directory, name));
    }),
  );
  const owned = files
    .flat()
    .filter((file) => [...ids, ...containers].some((id) => basename(file).startsWith(id)));
  const [first, ...others] = owned;
  return first && dice.pick([first, ...others]);
}

function flipBit(text: string, dice: Dice): Buffer {
  const bytes = Buffer.from(text);
  const at = dice.below(bytes.length);
  bytes.writeUInt8(bytes.readUInt8(at) ^ (1 << dice.below(8)), at);
  return bytes;
}

function withVersion(text: string, version: number): string {
  return JSON.stringify({ ...(JSON.parse(text) as object), version });
}
