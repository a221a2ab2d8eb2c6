import type { Dataplane } from "../dataplane/dataplane.ts";
import { describeThrown } from "../failure/failure.ts";
import { portSignal, type ReconcilePass } from "./reconcile-pass.ts";
import type { SwitchPort } from "./remove-orphan-ports.ts";

/** What the switches of a node say. */
export interface SwitchesView {
  readonly switchPorts: readonly SwitchPort[];
  /** Those that say nothing. */
  readonly silent: ReadonlySet<Dataplane>;
}

/** Reads the ports of all switches; one that does not answer keeps nobody else. */
export async function readSwitches(pass: ReconcilePass): Promise<SwitchesView> {
  const silent = new Set<Dataplane>();
  const lists = pass.context.pools.dataplanes().map(async (dataplane) => {
    try {
      const ports = await dataplane.listPorts(portSignal(pass));
      return ports.map((port) => ({ dataplane, port }));
    } catch (error) {
      silent.add(dataplane);
      pass.observer.itemFailed(error);
      pass.logger.warn({ reason: describeThrown(error) }, "a switch's ports cannot be read");
      return [];
    }
  });
  return { switchPorts: (await Promise.all(lists)).flat(), silent };
}
