import { chmod, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { poolsByName } from "../../test/stand-in/config/pools-by-name.ts";
import { isSelinuxOn } from "../allocation/selinux-label.ts";
import { parseConfig } from "../config/load.ts";
import type { Logger } from "../logging/logger.ts";
import { checkCapabilities, checkLabels, NEEDED_CAPABILITIES } from "./check-start.ts";

const hasSelinux = await isSelinuxOn();

let root: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "kvu-start-"));
  await chmod(root, 0o755);
});
afterEach(() => rm(root, { recursive: true }));

const status = async (effective: bigint) => {
  const file = join(root, "status");
  await writeFile(file, `Name:\tnode\nCapEff:\t${effective.toString(16).padStart(16, "0")}\n`);
  return file;
};
const bits = Object.values(NEEDED_CAPABILITIES).reduce((sum, { bit }) => sum | (1n << BigInt(bit)), 0n);

describe("capabilities", () => {
  it("suffice when they are exactly the required ones", async () => {
    await checkCapabilities(await status(bits));
  });

  it.each(Object.entries(NEEDED_CAPABILITIES))("lack %s by name", async (name, { bit }) => {
    const file = await status(bits & ~(1n << BigInt(bit)));
    await expect(checkCapabilities(file)).rejects.toThrow(new RegExp(`the daemon lacks ${name} `));
  });

  it("are all missing where the kernel does not report them", async () => {
    await writeFile(join(root, "status"), "");
    await expect(checkCapabilities(join(root, "status"))).rejects.toMatchObject({
      code: "capability-missing",
    });
  });
});

describe("labels of the pools", () => {
  const label = "system_u:object_r:container_file_t:s0";
  const config = parseConfig(
    JSON.stringify({
      node: "n",
      root: "/r",
      pools: poolsByName(
        ...["p1", "p2"].map((name) => ({
          name,
          resource: `vhostuser/${name}`,
          capacity: 1,
          dataplane: { type: "ovs-dpdk", bridge: "br" },
          directory: { selinuxLabel: label },
        })),
      ),
    }),
    "c.yaml",
  );

  it.skipIf(hasSelinux)(
    "of a node without SELinux are one warning, and leave nothing in the root",
    async () => {
      const warnings: unknown[] = [];
      const logger = { warn: (...warning: unknown[]) => warnings.push(warning) } as unknown as Logger;
      await checkLabels({ ...config, root }, logger);
      expect(warnings).toHaveLength(1);
      expect(await readdir(root)).toEqual([]);
    },
  );
});
