import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { isSelinuxOn } from "../../allocation/directory/selinux-label.ts";
import { describeThrown } from "../../failure/failure.ts";
import { type Finding, fine, type NodeCheck, problem, skipped, warning } from "./node-check.ts";
import { readRecords } from "./read-records.ts";

/** Directories that are looked at; each takes a process. */
const MOST = 64;

/** SELinux' mode, and whether pods' directories have their label. */
export const selinuxCheck: NodeCheck = {
  name: "SELinux",
  check: async ({ config, host }) => {
    if (!(await isSelinuxOn({ fileSystems: join(host.proc, "filesystems") }))) return [fine("off")];
    const enforce = await readFile(join(host.sys, "fs/selinux/enforce"), "utf8").catch(() => undefined);
    const isEnforcing = enforce?.trim() === "1";
    const mode =
      enforce === undefined
        ? "on; its mode cannot be seen from here"
        : isEnforcing
          ? "enforcing"
          : "permissive";
    const unlabelled = config.pools.filter(({ directory }) => directory.selinuxLabel === undefined);
    return [
      fine(mode),
      ...(isEnforcing
        ? unlabelled.map(({ name }) =>
            warning(
              `pool ${name} has no selinuxLabel: confined containers may not use its directories`,
              "set pools[].directory.selinuxLabel, for example to system_u:object_r:container_file_t:s0",
            ),
          )
        : []),
      ...(await checkLabels(config, host.run)),
    ];
  },
};

async function checkLabels(
  config: { readonly root: string; readonly recordsDirectory: string },
  run: (command: string, args: readonly string[]) => Promise<string>,
): Promise<readonly Finding[]> {
  const { allocations } = await readRecords(config.recordsDirectory);
  const labelled = allocations.flatMap(({ id, devices, ownership: { selinuxLabel: label } }) =>
    label === undefined ? [] : devices.map((device) => ({ path: join(config.root, id, device), label })),
  );
  const findings = labelled.slice(0, MOST).map(async ({ path, label }): Promise<Finding[]> => {
    try {
      const is = (await run("stat", ["--format=%C", "--", path])).trim();
      if (is === label) return [];
      return [
        problem(
          `${path} has the label ${is}, it should be ${label}`,
          `somebody relabelled it: chcon ${label} ${path}; restorecon needs a rule of its own for the root`,
        ),
      ];
    } catch (error) {
      return [skipped(`the label of ${path} cannot be read: ${describeThrown(error)}`)];
    }
  });
  const wrong = (await Promise.all(findings)).flat();
  return wrong.length > 0 || labelled.length === 0
    ? wrong
    : [fine(`labels of ${labelled.length} directories`)];
}
