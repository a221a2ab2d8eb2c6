// One step of the daemon's, run with a capability less than it needs: isolation-step.ts STEP ROOT ALLOCATION.
import { readdir } from "node:fs/promises";
import { openDirectory } from "../../src/allocation/open-directory.ts";
import { isSetAside, removeAllocationDirectory, removeSetAside } from "../../src/allocation/set-aside.ts";
import { giveSocketToGroup } from "../../src/allocation/socket-access.ts";
import { ensureSocketDirectories } from "../../src/allocation/socket-directories.ts";
import { describeThrown } from "../../src/failure/failure.ts";
import { systemClock } from "../../src/sync/clock.ts";

const [step = "", root = "", allocationId = ""] = process.argv.slice(2);

const STEPS: Readonly<Record<string, () => Promise<void>>> = {
  ensure: () =>
    ensureSocketDirectories({
      ...{ root, allocationId, names: ["net2"] },
      ownership: { owner: 107, group: 1500, mode: 0o2770 },
    }),
  open: async () => {
    using directory = openDirectory(`${root}/${allocationId}/net1`);
    if (!giveSocketToGroup(directory)) throw new Error("the socket was not changed");
  },
  remove: async () => {
    await removeAllocationDirectory(root, allocationId);
    using directory = openDirectory(root);
    const { signal } = new AbortController();
    for (const name of (await readdir(root)).filter(isSetAside)) {
      await removeSetAside(directory, name, { clock: systemClock, signal });
    }
  },
};

try {
  await STEPS[step]?.();
  process.stdout.write("done\n");
} catch (error) {
  process.stdout.write(`${describeThrown(error)}\n`);
}
