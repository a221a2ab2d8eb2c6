import { setTimeout as delay } from "node:timers/promises";
import type { OvsDpdk } from "../lab/ovs-dpdk.ts";
import { freeze } from "../machine/freeze.ts";
import type { Dice } from "./dice.ts";
import { Serial } from "./serial.ts";
import { readSwitch, type SwitchView } from "./switch-view.ts";

const CALM_MS = 30_000;
/** After a restart of the switch the daemons restore its ports, which takes long on a slow machine. */
const RECOVERY_MS = 60_000;

/** The one switch of all nodes of a churn. */
export class SharedSwitch {
  readonly #ovs: OvsDpdk;
  readonly #bridge: string;
  readonly #serial = new Serial();
  #databaseRestartedAt = 0;
  #restartedAt = 0;
  #reading: Promise<SwitchView> | undefined;

  constructor(ovs: OvsDpdk, bridge: string) {
    this.#ovs = ovs;
    this.#bridge = bridge;
  }

  /** What it has now; callers at the same time share an answer. */
  view(): Promise<SwitchView> {
    this.#reading ??= this.#serial
      .run("read", () => readSwitch(this.#ovs, this.#bridge))
      .finally(() => {
        this.#reading = undefined;
      });
    return this.#reading;
  }

  /** The database ends as in a crash and comes back with what it had. @param downMs how long it is down */
  restartDatabase(downMs = 0): Promise<void> {
    return this.#serial.run("restart the database", async () => {
      await this.#ovs.killDatabase();
      if (downMs > 0) await delay(downMs);
      await this.#ovs.restartDatabase();
      this.#databaseRestartedAt = Date.now();
    });
  }

  /**
   * False where it has just ended: the switch retries its connection only every 8 s, and would never be up for as many
   * nodes as want it restarted.
   */
  get mayRestartDatabase(): boolean {
    return Date.now() - this.#databaseRestartedAt > CALM_MS;
  }

  /** The switch ends as in a crash and comes back. */
  restartSwitch(): Promise<void> {
    return this.#serial.run("restart the switch", async () => {
      this.#restartedAt = Date.now();
      await this.#ovs.killVswitchd();
      await this.#ovs.restartVswitchd();
      this.#restartedAt = Date.now();
    });
  }

  /** Whether it ended so recently, in any node's run, that the daemons may not have restored everything in it. */
  get isRecovering(): boolean {
    return Date.now() - this.#restartedAt < RECOVERY_MS;
  }

  /** Stops a part of it for a while; meanwhile only the nodes send it requests. */
  freeze(part: "vswitchd" | "ovsdbServer", ms: number): Promise<void> {
    return this.#serial.run("freeze a part", () => freeze(this.#ovs.pids()[part], ms));
  }

  /** An operator's mistake with a port of this node. */
  changePorts(node: string, dice: Dice): Promise<void> {
    return this.#serial.run("change ports", async () => {
      const mine = (await readSwitch(this.#ovs, this.#bridge)).ports.filter((port) => port.node === node);
      const [first, ...others] = mine;
      if (first === undefined) return;
      const { name, tag, cir } = dice.pick([first, ...others]);
      // Settings that a network does not ask for are the operator's own, and no mistake.
      const mistakes = [
        ["--if-exists", "del-port", name],
        ...(tag === undefined ? [] : [["--if-exists", "set", "Port", name, "tag=4000"]]),
        ...(cir === undefined ? [] : [["--if-exists", "clear", "Port", name, "qos"]]),
      ];
      const [one = [], ...more] = mistakes;
      await this.#ovs.vsctl("--no-wait", ...dice.pick([one, ...more]));
    });
  }
}
