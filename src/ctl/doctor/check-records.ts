import { plural } from "../terminal/units.ts";
import { fine, type NodeCheck, problem, warning } from "./node-check.ts";
import { readRecords } from "./read-records.ts";

/** What the daemon remembers. */
export const recordsCheck: NodeCheck = {
  name: "records",
  check: async ({ config: { recordsDirectory } }) => {
    const { allocations, ports, unreadable, foreign } = await readRecords(recordsDirectory);
    return [
      fine(
        `${recordsDirectory}: ${plural(allocations.length, "allocation")}, ${plural(ports.length, "interface")}`,
      ),
      ...unreadable.map((what) =>
        problem(what, "its pod has to be made anew; keep the file for a report, then remove it"),
      ),
      ...foreign.map(({ file, reason }) =>
        warning(
          `${file}: ${reason}`,
          "what it stands for is left alone: let the release that wrote it run again, or delete its pod first and then the file",
        ),
      ),
    ];
  },
};
