import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { lookAtPlaces } from "../../node-status/look-at-places.ts";
import { checkOwnership } from "../trace/check-directory.ts";
import { type Finding, fine, type NodeCheck, problem, skipped } from "./node-check.ts";
import { readRecords } from "./read-records.ts";

/** Names of the switches' processes, as far as the kernel keeps them (15 characters). */
const SWITCHES: Readonly<Record<string, readonly string[]>> = {
  "ovs-dpdk": ["ovs-vswitchd", "ovs-vswitchd-dp"],
  vpp: ["vpp_main", "vpp"],
};

/** Whether the switch's user may connect to pods' sockets, and whether pods' directories are theirs. */
export const permissionsCheck: NodeCheck = {
  name: "permissions",
  check: async ({ config, host }) => {
    const processes = await listProcesses(host.proc);
    const kinds = Map.groupBy(config.pools, ({ dataplane }) => dataplane.type);
    const users = [...kinds].flatMap(([kind, pools]) => {
      const own = processes.filter(({ name }) => SWITCHES[kind]?.includes(name));
      if (own.length === 0)
        return [skipped(`no process of ${kind} can be seen from here: run this on the node`)];
      return pools.flatMap((pool) => judge(own.map((process) => mayConnect(process, pool))));
    });
    return [...users, ...(await checkDirectories(config))];
  },
};

/** Which of several switches of a kind is the pool's nobody can see: one that may connect makes the others a warning. */
function judge(findings: readonly Finding[]): readonly Finding[] {
  if (!findings.some(({ verdict }) => verdict === "ok")) return findings;
  return findings.map((one) => (one.verdict === "problem" ? { ...one, verdict: "warning" } : one));
}

interface Process {
  readonly pid: string;
  readonly name: string;
  /** Effective. */
  readonly uid: number;
  readonly groups: readonly number[];
}

async function listProcesses(proc: string): Promise<readonly Process[]> {
  const pids = (await readdir(proc)).filter((name) => /^\d+$/.test(name));
  const found = await Promise.all(
    pids.map(async (pid) => {
      // It may have ended meanwhile.
      const text = await readFile(join(proc, pid, "status"), "utf8").catch(() => "");
      const field = (name: string) => new RegExp(`^${name}:\\s*(.*)$`, "m").exec(text)?.[1] ?? "";
      const numbers = (name: string) => field(name).split(/\s+/).filter(Boolean).map(Number);
      const [, uid = -1] = numbers("Uid");
      const [, gid = -1] = numbers("Gid");
      return { pid, name: field("Name"), uid, groups: [gid, ...numbers("Groups")] };
    }),
  );
  return found.filter(({ name }) => name !== "");
}

function mayConnect(
  { pid, name, uid, groups }: Process,
  {
    name: pool,
    directory,
  }: { readonly name: string; readonly directory: { readonly group: number; readonly owner: number } },
): Finding {
  const who = `${name} (pid ${pid}) runs with uid ${uid}`;
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
