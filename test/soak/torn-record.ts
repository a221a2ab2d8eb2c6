import { readFile, rm, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { differences } from "../churn/compare.ts";
import type { Dice } from "../churn/dice.ts";
import type { SharedSwitch } from "../churn/shared-switch.ts";
import { waitUntil } from "../machine/wait-until.ts";
import type { Site } from "./site.ts";

/** Damage to an entry whose key stays legible. */
type Damage = (entry: string, dice: Dice) => string;

const DAMAGES: readonly [readonly [string, Damage], ...(readonly [string, Damage])[]] = [
  [
    "truncated",
    (entry, dice) => entry.slice(0, valueStart(entry) + dice.below(entry.length - valueStart(entry))),
  ],
  ["bit-flipped", flipBit],
  ["of another shape", (entry) => entry.replace('"value":{', '"value":{"odd":')],
];
/** Enough passes of the reconciler for it to do something wrong. */
const WATCHED_MS = 3_000;
const LIMIT_MS = 180_000;

/**
 * A record of a living pod is damaged while no daemon runs. The daemon must change nothing: the pod is still running.
 * Then the operator puts the record back, from a copy.
 * @returns what was done
 */
export async function tearRecord(site: Site, shared: SharedSwitch, dice: Dice): Promise<string | undefined> {
  const { node, churn } = site;
  const store = dice.pick(["allocations", "ports"]);
  const directory = join(node.recordsDirectory, store);
  const file = join(directory, "journal");
  await node.killDaemon();
  const whole = await readFile(file, "utf8");
  const keys = livingKeys(site).filter((key) => whole.includes(`{"key":"${key}`));
  const [first, ...others] = keys;
  if (first === undefined) {
    await node.startDaemon();
    return undefined;
  }
  const key = dice.pick([first, ...others]);
  const [what, damage] = dice.pick(DAMAGES);
  const lines = whole.split("\n");
  const at = lines.findLastIndex((line) => line.includes(`{"key":"${key}`));
  await writeFile(file, lines.with(at, damage(lines[at] ?? "", dice)).join("\n"));
  await node.startDaemon();
  await delay(WATCHED_MS);
  let left: readonly string[] = [];
  await waitUntil(
    async () => {
      const all = await differences(churn, await shared.view());
      left = all.filter((each) => !each.includes(key) || !each.includes("records"));
      return left.length === 0;
    },
    {
      what: `nothing but the record ${key} in ${file}, which is ${what}, differs`,
      limitMs: LIMIT_MS,
      everyMs: 200,
      detail: () => left.join("; "),
    },
  );
  await node.killDaemon();
  await rm(join(directory, "damaged"), { force: true });
  await writeFile(file, whole);
  await node.startDaemon();
  return `${store} record ${what}`;
}

/** How the keys begin of the allocations and ports of pods that live. */
function livingKeys({ churn }: Site): readonly string[] {
  const claimed = churn.claims?.ports().map(({ allocationId }) => allocationId) ?? [];
  return [...[...churn.pods, ...churn.residents].map(({ hostPath }) => basename(hostPath)), ...claimed];
}

const valueStart = (entry: string): number => entry.indexOf('"value":');

function flipBit(entry: string, dice: Dice): string {
  const bytes = Buffer.from(entry, "latin1");
  const at = valueStart(entry) + dice.below(bytes.length - valueStart(entry));
  // The highest bit stays: what is written again as UTF-8 is then one flipped bit.
  bytes.writeUInt8(bytes.readUInt8(at) ^ (1 << dice.below(7)), at);
  return bytes.toString("latin1");
}
