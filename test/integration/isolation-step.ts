// One step of the daemon's, run with a capability less than it needs: isolation-step.ts STEP ROOT ALLOCATION.
import { join } from "node:path";
import { ensureSocketDirectories } from "../../src/allocation/directory/ensure.ts";
import { removeAllocationDirectory } from "../../src/allocation/directory/remove.ts";
import { HeldDirectory } from "../../src/allocation/guard/held-directory.ts";
import { mendSocket } from "../../src/allocation/guard/mend-socket.ts";
import { describeThrown } from "../../src/failure/failure.ts";

const [step = "", root = "", allocationId = ""] = process.argv.slice(2);

const STEPS: Readonly<Record<string, () => Promise<void>>> = {
  ensure: () =>
    ensureSocketDirectories({
      ...{ root, allocationId, names: ["net2"] },
      ownership: { owner: 107, group: 1500, mode: 0o2770 },
    }),
  mend: async () => {
    using directory = HeldDirectory.open(join(root, allocationId, "net1"));
    if (directory === undefined || !mendSocket(directory, "vhost.sock"))
      throw new Error("nothing was mended");
  },
  remove: () => removeAllocationDirectory(root, allocationId),
};

try {
  await STEPS[step]?.();
  process.stdout.write("done\n");
} catch (error) {
  process.stdout.write(`${describeThrown(error)}\n`);
}
