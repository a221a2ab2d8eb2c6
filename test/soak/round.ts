import { setTimeout as delay } from "node:timers/promises";
import { Dice } from "../churn/dice.ts";
import { agree, bringUp, checkAll, endAll } from "../churn/peace.ts";
import { randomActions } from "../churn/random-action.ts";
import { settledAll } from "../churn/settled-all.ts";
import { GUEST_ACTIONS } from "./guest-actions.ts";
import { LASTING_DISTURBANCES, NODE_DISTURBANCES, type NodeDisturbance } from "./node-disturbances.ts";
import type { Site } from "./site.ts";
import type { SoakGuest } from "./soak-guest.ts";
import type { SoakWorld } from "./soak-world.ts";
import { SWITCH_DISTURBANCES } from "./switch-disturbances.ts";
import { tearRecord } from "./torn-record.ts";

/** What a round did and found, in words for its line. */
export interface RoundReport {
  readonly steps: readonly string[];
  readonly checked: string;
}

/** Thrown by a round; the steps so far are what led to it. */
export class RoundFailure extends Error {
  readonly steps: readonly string[];

  constructor(steps: readonly string[], cause: unknown) {
    super("the round failed", { cause });
    this.steps = steps;
  }
}

/**
 * One round: pods come and go and a guest migrates while things go wrong. Then the disturbances end, and the world must
 * become what the model says; then all pods of the churn end, and nothing may be left of them.
 * @throws RoundFailure
 */
export async function runRound(world: SoakWorld, seed: number): Promise<RoundReport> {
  const steps: string[] = [];
  const { sites, guests, weather } = world;
  const dice = new Dice(seed);
  try {
    const isAfter = dice.percent(40);
    weather.isCalm = false;
    await storm(world, seed, dice, steps, isAfter ? [] : [guestActs(world, seed, dice, steps)]);
    await settledAll(sites.map(({ churn }) => bringUp(churn)));
    await agreeAll(world);
    weather.isCalm = true;
    await settledAll(sites.map(({ churn }) => checkAll(churn, world.shared)));
    await damageRecords(world, dice, steps);
    await checkGuests(guests);
    if (isAfter) {
      await guestActs(world, seed, dice, steps)();
      await agreeAll(world);
      await checkGuests(guests);
    }
    steps.push(await claimedVmActs(world, new Dice(dice.below(2 ** 32))));
    await agreeAll(world);
    const pods = sites.map(
      ({ churn: { pods, claims } }) => `${pods.length} pods and ${claims?.pods.length ?? 0} with claims`,
    );
    await settledAll(sites.map(({ churn }) => endAll(churn, new Dice(dice.below(2 ** 32)))));
    await agreeAll(world);
    const holdings = await settledAll(sites.map(({ leaks }) => leaks.check()));
    const each = holdings.map(({ descriptors, mib }, index) => {
      const { name } = sites[index]?.node ?? {};
      return `${name}: ${pods[index]}, ${sites[index]?.churn.residents.length} guests, ${descriptors} descriptors, ${mib} MiB`;
    });
    return { steps, checked: each.join("; ") };
  } catch (error) {
    throw new RoundFailure(steps, error);
  }
}

/** The model and the world are the same, the guests' pods included. */
async function agreeAll({ sites, guests, shared }: SoakWorld): Promise<void> {
  for (const site of sites) {
    site.churn.residents = guests.filter((guest) => guest.site === site).map((guest) => guest.living());
  }
  await settledAll(sites.map(({ churn }) => agree(churn, shared)));
}

/** Each reaches the next. */
async function checkGuests(guests: readonly SoakGuest[]): Promise<void> {
  await settledAll(
    guests.map((guest, index) => {
      const peer = guests[(index + 1) % guests.length];
      return peer === undefined ? Promise.resolve() : guest.check(peer);
    }),
  );
}

/** Without other disturbances on the node: the end of a pod whose record is unreadable is not tested here. */
async function damageRecords(world: SoakWorld, dice: Dice, steps: string[]): Promise<void> {
  const { sites, shared } = world;
  const [site] = sites;
  if (site === undefined || dice.below(10) < 4) return;
  const done = await tearRecord(site, shared, dice);
  if (done === undefined) return;
  steps.push(`${site.node.name}: ${done}`);
  await agreeAll(world);
}

/** The VM with a claim lives a life, in which a guest answers it. */
function claimedVmActs({ claimed, sites, guests: [peer] }: SoakWorld, dice: Dice): Promise<string> {
  if (peer === undefined) throw new Error("there is no guest");
  return claimed.round(sites, dice, peer.guest, peer.address);
}

/** One guest has its action. */
function guestActs(
  { guests, sites }: SoakWorld,
  seed: number,
  dice: Dice,
  steps: string[],
): () => Promise<void> {
  const action = GUEST_ACTIONS[seed % GUEST_ACTIONS.length] ?? GUEST_ACTIONS[0];
  const guest = guests[dice.below(guests.length)];
  const own = new Dice(dice.below(2 ** 32));
  return async () => {
    if (guest === undefined) return;
    steps.push(`${guest.name} ${action.name}`);
    const outcome = await action.run(guest, sites, own);
    if (outcome !== undefined) steps.push(`${guest.name}: ${outcome}`);
  };
}

/** All at once; each has dice of its own, so that its choices do not depend on the speed of another. */
async function storm(
  world: SoakWorld,
  seed: number,
  dice: Dice,
  steps: string[],
  others: readonly (() => Promise<void>)[],
): Promise<void> {
  const { sites } = world;
  const works = sites.map((site) => {
    const own = new Dice(dice.below(2 ** 32));
    return churnSite(site, own, steps);
  });
  for (const { name, run } of disturbances(world, seed, dice)) {
    const pause = dice.below(1_500);
    works.push(
      delay(pause).then(() => {
        steps.push(name);
        return run();
      }),
    );
  }
  works.push(...others.map((work) => work()));
  await settledAll(works);
}

async function churnSite({ churn, node }: Site, dice: Dice, steps: string[]): Promise<void> {
  const act = randomActions(churn);
  for (let round = 2 + dice.below(4); round > 0; round--) {
    const atOnce = Array.from({ length: 1 + dice.below(3) }, () => act(dice));
    for (const name of await settledAll(atOnce)) steps.push(`${node.name}: ${name}`);
  }
}

interface Chosen {
  readonly name: string;
  readonly run: () => Promise<void>;
}

/**
 * One for each place at most, for what goes wrong with one place twice at once undoes itself. Consecutive seeds choose
 * consecutive disturbances, so that a long enough run has had all.
 */
function disturbances({ sites, shared }: SoakWorld, seed: number, dice: Dice): readonly Chosen[] {
  const ofNode = (site: Site, [name, disturb]: [string, NodeDisturbance]): Chosen => {
    const own = new Dice(dice.below(2 ** 32));
    return { name: `${site.node.name}: ${name}`, run: () => disturb(site, own, shared) };
  };
  const switches = Object.entries(SWITCH_DISTURBANCES);
  const chosen: Chosen[] = [];
  for (const [index, site] of sites.entries()) {
    // The second node's daemon lives as long as the soak, so that what it holds can be watched.
    const possible = Object.entries(index === 0 ? NODE_DISTURBANCES : LASTING_DISTURBANCES);
    const entry = possible[(index === 0 ? seed : dice.below(possible.length)) % possible.length];
    if (entry !== undefined && (index === 0 || dice.percent(40))) chosen.push(ofNode(site, entry));
  }
  const [name, disturb] = switches[seed % switches.length] ?? [];
  if (name !== undefined && disturb !== undefined && dice.percent(60)) {
    const own = new Dice(dice.below(2 ** 32));
    chosen.push({ name, run: () => disturb(shared, own) });
  }
  return chosen;
}
