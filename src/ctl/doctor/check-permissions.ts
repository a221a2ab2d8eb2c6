import { checkOwnership } from "../../status/diagnosis/check-directory.ts";
import { lookAtPlaces } from "../../status/look-at-places.ts";
import { type Finding, fine, type NodeCheck, problem, skipped } from "./node-check.ts";
import { readRecords } from "./read-records.ts";
import { findSwitches, type SwitchProcess } from "./switch-processes.ts";

/** Whether the switch's user may connect to pods' sockets, and whether pods' directories are theirs. */
export const permissionsCheck: NodeCheck = {
  name: "permissions",
  check: async ({ config, host }) => {
    const users = await Promise.all(
      config.pools.map(async (pool) => {
        const own = await findSwitches(host.proc, pool.dataplane);
        return own.length === 0 ? undefined : judge(own.map((process) => mayConnect(process, pool)));
      }),
    );
    const unseen = config.pools.filter((_, at) => users[at] === undefined);
    const kinds = [...new Set(unseen.map(({ dataplane }) => dataplane.type))];
    const skips = kinds.map((kind) =>
      skipped(`no process of ${kind} can be seen from here: run this on the node`),
    );
    return [...users.flatMap((found) => found ?? []), ...skips, ...(await checkDirectories(config))];
  },
};

/** Which of several switches of a kind is the pool's nobody can see: one that may connect makes the others a warning. */
function judge(findings: readonly Finding[]): readonly Finding[] {
  if (!findings.some(({ verdict }) => verdict === "ok")) return findings;
  return findings.map((one) => (one.verdict === "problem" ? { ...one, verdict: "warning" } : one));
}

function mayConnect(
  { pid, name, program, uid, groups }: SwitchProcess,
  {
    name: pool,
    directory,
  }: { readonly name: string; readonly directory: { readonly group: number; readonly owner: number } },
): Finding {
  const who = `${name} (pid ${pid}, ${program ?? "by its name alone"}) runs with uid ${uid}`;
  if (uid === 0 || uid === directory.owner) return fine(`${who}: pool ${pool}`);
  if (groups.includes(directory.group)) return fine(`${who} in group ${directory.group}: pool ${pool}`);
  return problem(
    `${who} and is not in group ${directory.group} of pool ${pool}: it cannot connect to pods' sockets`,
    "set pools[].directory.group to a group of the switch's user, or add that user to the group; pods get it with their next allocation",
  );
}

async function checkDirectories(config: { readonly root: string; readonly recordsDirectory: string }) {
  const { allocations, ports } = await readRecords(config.recordsDirectory);
  const wrong = allocations.flatMap(({ id, ownership, devices }) => {
    const interfaces = ports
      .filter(({ allocationId }) => allocationId === id)
      .map((port) => port.interfaceName);
    return [...devices, ...interfaces].flatMap((name) => {
      const { cause, cure, what, verdict } = checkOwnership(lookAtPlaces(config.root, id, name), ownership);
      return verdict === "broken" ? [problem(what, `${cause}; ${cure}`)] : [];
    });
  });
  return wrong.length === 0 ? [fine(`directories of ${allocations.length} allocations`)] : wrong;
}
