import type { Dice } from "../churn/dice.ts";
import type { Site } from "./site.ts";
import type { SidecarKill, SoakGuest } from "./soak-guest.ts";

/** What happens to one guest in a round, by its name. */
export interface GuestAction {
  readonly name: string;
  /** @returns the outcome, where the name does not say it */
  readonly run: (guest: SoakGuest, sites: readonly Site[], dice: Dice) => Promise<string | undefined>;
}

/** All calls of OnDefineDomain together take about as long. */
const DEFINE_MS = 400;

const migrates: GuestAction = {
  name: "migrates",
  run: async (guest, sites) => {
    const others = sites.filter((site) => site !== guest.site);
    const [to] = others;
    if (to === undefined) throw new Error("there is one node only");
    return guest.migrate(to);
  },
};

const losesQemu: GuestAction = {
  name: "has its QEMU killed",
  run: async (guest, sites, dice) => {
    await guest.killQemu(anySite(sites, dice));
    return undefined;
  },
};

const restarts: GuestAction = {
  name: "restarts",
  run: async (guest, sites, dice) => {
    await guest.restart(anySite(sites, dice));
    return undefined;
  },
};

const losesSidecar = (when: "before" | "during" | "after"): GuestAction => ({
  name: `has its sidecar killed ${when} OnDefineDomain`,
  run: async (guest, sites, dice) => {
    const kill: SidecarKill = when === "during" ? { withinMs: dice.below(DEFINE_MS) } : when;
    await guest.restartKillingSidecar(anySite(sites, dice), kill);
    return undefined;
  },
});

/** Consecutive rounds have consecutive ones. */
export const GUEST_ACTIONS: readonly [GuestAction, ...GuestAction[]] = [
  migrates,
  losesQemu,
  losesSidecar("before"),
  migrates,
  restarts,
  losesSidecar("during"),
  migrates,
  losesSidecar("after"),
];

function anySite([first, ...others]: readonly Site[], dice: Dice): Site {
  if (first === undefined) throw new Error("there is no node");
  return dice.pick([first, ...others]);
}
