import { closeSync, openSync } from "node:fs";
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay, setImmediate as nextTurn } from "node:timers/promises";
import { systemCode } from "../../src/failure/failure.ts";
import type { Dice } from "../churn/dice.ts";
import type { SharedSwitch } from "../churn/shared-switch.ts";
import { freeze } from "../machine/freeze.ts";
import type { Illness } from "../stand-in/api-server/fake-api-server.ts";
import type { Site } from "./site.ts";

/** Something that goes wrong with one node for a while. Over when it resolves; pods come and go meanwhile. */
export type NodeDisturbance = (site: Site, dice: Dice, shared: SharedSwitch) => Promise<void>;

/** Those that end the daemon, by the name printed in a round's line. */
const ENDING: Readonly<Record<string, NodeDisturbance>> = {
  "daemon killed": async ({ node }, dice) => {
    await node.killDaemon();
    if (dice.percent(50)) await delay(dice.below(2_000));
    await node.startDaemon();
  },
  "daemon killed while it starts": async ({ node }, dice) => {
    await node.killDaemon();
    // Fails if the kill hits the start, succeeds if it comes later.
    const started = node.startDaemon().catch(() => undefined);
    await delay(dice.below(600));
    await node.killDaemon();
    await started;
    if (!node.isDaemonRunning) await node.startDaemon();
  },
  "daemon replaced": async ({ node }) => {
    await node.stopDaemon();
    await node.startDaemon();
  },
};

/** Those that the daemon survives. */
export const LASTING_DISTURBANCES: Readonly<Record<string, NodeDisturbance>> = {
  "daemon frozen": ({ node }, dice) => freeze(node.daemonPid, 200 + dice.below(5_000)),
  "kubelet restarted": ({ churn }, dice) => churn.restartKubelet(dice.below(1_500)),
  "kubelet slow": async ({ node: { kubelet } }, dice) => {
    kubelet.latenessMs = 100 + dice.below(1_400);
    await delay(1_000 + dice.below(4_000));
    kubelet.latenessMs = 0;
  },
  "API server away": async ({ api }, dice) => {
    const answers: readonly [Illness, ...Illness[]] = [
      { kind: "status", status: 503 },
      { kind: "half" },
      { kind: "html" },
      { kind: "silent" },
    ];
    api.endWatches("cut");
    const illness = dice.pick(answers);
    // More than come.
    api.illnesses.push(...Array.from({ length: 10_000 }, () => illness));
    await delay(500 + dice.below(4_000));
    api.illnesses.length = 0;
  },
  "ports changed by another program": async ({ node }, dice, shared) => {
    for (let time = 0; time < 3; time++) await shared.changePorts(node.name, dice);
  },
  "disk of the records full": async ({ disk }, dice) => {
    try {
      await disk.fill();
      await delay(500 + dice.below(2_500));
    } finally {
      await disk.empty();
    }
  },
  "disk of the records read-only": async ({ disk }, dice) => {
    try {
      await disk.makeReadOnly();
      await delay(500 + dice.below(2_500));
    } finally {
      await disk.makeWritable();
    }
  },
  "a pod fills the root with bytes": (site, dice) => fillRoot(site, dice, fillWithBytes),
  "a pod fills the root with files": (site, dice) => fillRoot(site, dice, fillWithFiles),
  "clock an hour back": ({ clock }, dice) => skewed(clock, -3_600, dice),
  "clock an hour ahead": ({ clock }, dice) => skewed(clock, 3_600, dice),
};

/** All of them. */
export const NODE_DISTURBANCES: Readonly<Record<string, NodeDisturbance>> = {
  ...ENDING,
  ...LASTING_DISTURBANCES,
};

async function skewed(clock: Site["clock"], seconds: number, dice: Dice): Promise<void> {
  try {
    clock.skew(seconds);
    await delay(1_000 + dice.below(3_000));
  } finally {
    clock.skew(0);
  }
}

/** What a pod made stays: the daemon must bound it, and remove it when the pod is gone. */
async function fillRoot(
  { churn }: Site,
  dice: Dice,
  fill: (directory: string) => Promise<void>,
): Promise<void> {
  const [first, ...others] = churn.pods.flatMap((pod) =>
    [...pod.sandbox.attached.keys()].map((name) => ({ pod, directory: join(pod.hostPath, name) })),
  );
  if (first === undefined) return;
  const { pod, directory } = dice.pick([first, ...others]);
  pod.hasHoarded = true;
  try {
    await fill(directory);
  } catch (error) {
    // Full, or the pod ended and the daemon has removed the directory.
    if (!["ENOSPC", "ENOENT", "EACCES"].includes(systemCode(error) ?? "")) throw error;
  }
}

async function fillWithBytes(directory: string): Promise<void> {
  const file = join(directory, "filler");
  const chunk = Buffer.alloc(256 * 1024);
  try {
    // More than the root holds; it ends with ENOSPC, unless the daemon removes the file meanwhile.
    for (let written = 0; written < 64; written++) await writeFile(file, chunk, { flag: "a" });
  } finally {
    await delay(300);
    await rm(file, { force: true });
  }
}

/** All inodes, in slices, because the stand-ins live in this process. */
async function fillWithFiles(directory: string): Promise<void> {
  for (let number = 0; number < 60_000; number++) {
    closeSync(openSync(join(directory, `filler-${number}`), "w"));
    if (number % 1_000 === 999) await nextTurn();
  }
}
