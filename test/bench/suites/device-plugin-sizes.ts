import type { BenchNodeOptions } from "../bench-node.ts";
import { REST_TIMES, type RestTimes, TRIAL_REST } from "../daemon-at-rest.ts";

/** How much is done for a figure. */
export interface Sizes {
  readonly devices: number;
  readonly few: number;
  /** Gives back at once what no pod holds, where the giving back is measured. */
  readonly reclaim: NonNullable<BenchNodeOptions["reclaim"]>;
  readonly rest: RestTimes;
}

/** What `npm run bench` does. */
export const FULL: Sizes = {
  devices: 1000,
  few: 100,
  reclaim: { intervalSeconds: 1, graceSeconds: 1 },
  rest: REST_TIMES,
};
/** For a trial: so few that they take long enough to be seen on the kernel's clock of a process' CPU, and no longer. */
export const TRIAL: Sizes = {
  devices: 100,
  few: 30,
  reclaim: { intervalSeconds: 0.2, graceSeconds: 1 },
  rest: TRIAL_REST,
};
