import { join } from "node:path";
import type { CheckedHost } from "../../../src/ctl/doctor/node-check.ts";

/** A machine for `vhostuserctl doctor` whose proc and sys lie in a directory, and on which programs print nothing. */
export function checkedHost(directory: string): CheckedHost {
  return {
    places: { node: "n" },
    version: "0.1.0",
    proc: join(directory, "proc"),
    sys: join(directory, "sys"),
    kernel: "6.1.0-28-amd64",
    uid: 0,
    run: async () => "",
  };
}
