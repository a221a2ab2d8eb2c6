import { setTimeout as delay } from "node:timers/promises";
import type { Dice } from "../churn/dice.ts";
import type { SharedSwitch } from "../churn/shared-switch.ts";

/** Something that goes wrong with the switch of all nodes; over when it resolves. */
export type SwitchDisturbance = (shared: SharedSwitch, dice: Dice) => Promise<void>;

/** By the name printed in a round's line. */
export const SWITCH_DISTURBANCES: Readonly<Record<string, SwitchDisturbance>> = {
  "ovs-vswitchd killed": (shared) => shared.restartSwitch(),
  "ovsdb-server killed": async (shared) => {
    await shared.restartDatabase();
  },
  "ovsdb-server killed, down for a while": async (shared, dice) => {
    await shared.restartDatabase(500 + dice.below(4_000));
  },
  "ovs-vswitchd and ovsdb-server killed": async (shared, dice) => {
    await shared.restartDatabase(dice.below(500));
    await shared.restartSwitch();
  },
  "ovs-vswitchd frozen": (shared, dice) => shared.freeze("vswitchd", 200 + dice.below(6_000)),
  "ovsdb-server frozen": (shared, dice) => shared.freeze("ovsdbServer", 200 + dice.below(6_000)),
  "the switch twice": async (shared, dice) => {
    await shared.restartSwitch();
    await delay(dice.below(1_500));
    await shared.restartSwitch();
  },
};
