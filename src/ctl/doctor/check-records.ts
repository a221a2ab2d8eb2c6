import { plural } from "../terminal/units.ts";
import { fine, type NodeCheck, problem } from "./node-check.ts";
import { readRecords } from "./read-records.ts";

/** The daemon's records. */
export const recordsCheck: NodeCheck = {
  name: "records",
  check: async ({ config: { recordsDirectory } }) => {
    const { allocations, ports, unreadable } = await readRecords(recordsDirectory);
    return [
      fine(
        `${recordsDirectory}: ${plural(allocations.length, "allocation")}, ${plural(ports.length, "interface")}`,
      ),
      ...unreadable.map((what) =>
        problem(
          what,
          "delete its pod so that it is allocated again; keep the file for a report, then remove it",
        ),
      ),
    ];
  },
};
