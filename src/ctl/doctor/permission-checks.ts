import { readdir, readFile, readlink } from "node:fs/promises";
import { basename, join } from "node:path";
import { isSelinuxOn } from "../../allocation/selinux-label.ts";
import type { DaemonConfig } from "../../config/schema.ts";
import type { DataplaneConfig } from "../../dataplane/open-dataplane.ts";
import { switchProgram } from "../../dataplane/switch-kind.ts";
import { describeThrown } from "../../failure/failure.ts";
import { deviceNamesOf } from "../../records/allocation-record.ts";
import { readRecords } from "../../records/records.ts";
import { type CheckedDirectory, checkDirectory } from "../../status/diagnosis/check-directory.ts";
import { inspectPlaces } from "../../status/inspect-places.ts";
import {
  type CheckedHost,
  type Finding,
  fine,
  type NodeCheck,
  problem,
  skipped,
  warning,
} from "./node-check.ts";

/** Whether the switch's user may connect to pods' sockets, and whether pods' directories have their owner and mode. */
export const permissionsCheck: NodeCheck = async ({ config, host }) => {
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
};

/** Which of several switches of a kind is the pool's cannot be determined: one that may connect makes the others a warning. */
function judge(findings: readonly Finding[]): readonly Finding[] {
  if (!findings.some(({ verdict }) => verdict === "ok")) return findings;
  return findings.map((one) => (one.verdict === "problem" ? { ...one, verdict: "warning" } : one));
}

function mayConnect(
  { pid, name, program, uid, groups }: SwitchProcess,
  { name: pool, directory }: DaemonConfig["pools"][number],
): Finding {
  const who = `${name} (pid ${pid}, ${program ?? "by its name alone"}) runs with uid ${uid}`;
  if (uid === 0 || uid === directory.owner) return fine(`${who}: pool ${pool}`);
  if (groups.includes(directory.group)) return fine(`${who} in group ${directory.group}: pool ${pool}`);
  return problem(
    `${who} and is not in group ${directory.group} of pool ${pool}: it cannot connect to pods' sockets`,
    "set pools.<name>.directory.group to a group of the switch's user, or add that user to the group; pods get it with their next allocation",
  );
}

async function checkDirectories(config: DaemonConfig) {
  const { allocations, ports } = await readRecords(config.recordsDirectory);
  const byAllocation = Map.groupBy(ports, ({ allocationId }) => allocationId);
  const wrong = allocations.flatMap((allocation) => {
    const { id, ownership, socketServer = "guest", createdAt } = allocation;
    const check = (name: string, pod: string, attached: Pick<CheckedDirectory, "state" | "createdAt">) => {
      const places = inspectPlaces(config.root, id, name);
      const { verdict, what, cause, cure } = checkDirectory({ places, ownership, socketServer, ...attached });
      return verdict === "broken" ? [problem(`${pod}${what}`, `${cause}; ${cure}`)] : [];
    };
    const devices = deviceNamesOf(allocation).flatMap((name) =>
      check(name, "", { state: "allocated", createdAt }),
    );
    const interfaces = (byAllocation.get(id) ?? []).flatMap((port) =>
      check(port.interfaceName, `${port.podNamespace}/${port.podName}: `, port),
    );
    return [...devices, ...interfaces];
  });
  return wrong.length === 0 ? [fine(`directories of ${allocations.length} allocations`)] : wrong;
}

/** A process that looks like a switch. */
export interface SwitchProcess {
  readonly pid: string;
  readonly name: string;
  /** The file of its program; undefined where only root may read it. */
  readonly program: string | undefined;
  /** Effective. */
  readonly uid: number;
  readonly groups: readonly number[];
}

/**
 * The processes that may be a pool's switch: of its name, which any process may give itself, and running a program of
 * that name. Of several it is the one that the switch's pidfile names, where it has one.
 */
export async function findSwitches(proc: string, config: DataplaneConfig): Promise<readonly SwitchProcess[]> {
  const { processName, programFile, pidfile } = switchProgram(config);
  const found = (await listProcesses(proc, processName)).filter(
    ({ program }) => program === undefined || programFile.test(basename(program)),
  );
  if (pidfile === undefined) return found;
  const noted = (await readFile(pidfile, "utf8").catch(() => "")).trim();
  const named = found.filter(({ pid }) => pid === noted);
  return named.length > 0 ? named : found;
}

async function listProcesses(proc: string, wanted: RegExp): Promise<readonly SwitchProcess[]> {
  const pids = (await readdir(proc)).filter((name) => /^\d+$/.test(name));
  const found = await Promise.all(
    pids.map(async (pid) => {
      // The process may have ended.
      const text = await readFile(join(proc, pid, "status"), "utf8").catch(() => "");
      const field = (name: string) => new RegExp(`^${name}:\\s*(.*)$`, "m").exec(text)?.[1] ?? "";
      const name = field("Name");
      if (!wanted.test(name)) return [];
      const numbers = (of: string) => field(of).split(/\s+/).filter(Boolean).map(Number);
      const [, uid = -1] = numbers("Uid");
      const [, gid = -1] = numbers("Gid");
      const link = await readlink(join(proc, pid, "exe")).catch(() => undefined);
      // The file was replaced by an upgrade since the process started.
      const program = link?.replace(/ \(deleted\)$/, "");
      return { pid, name, program, uid, groups: [gid, ...numbers("Groups")] };
    }),
  );
  return found.flat();
}

/** Directories that are checked. */
const MAX_LABELS = 64;

/** SELinux' mode, and whether pods' directories have their label. */
export const selinuxCheck: NodeCheck = async ({ config, host }) => {
  if (!(await isSelinuxOn({ fileSystems: join(host.proc, "filesystems") }))) return [fine("off")];
  const enforce = await readFile(join(host.sys, "fs/selinux/enforce"), "utf8").catch(() => undefined);
  const isEnforcing = enforce?.trim() === "1";
  const known = isEnforcing ? "enforcing" : "permissive";
  const mode = enforce === undefined ? "on; its mode cannot be seen from here" : known;
  const unlabelled = config.pools.filter(({ directory }) => directory.selinuxLabel === undefined);
  return [
    fine(mode),
    ...(isEnforcing
      ? unlabelled.map(({ name }) =>
          warning(
            `pool ${name} has no selinuxLabel: confined containers may not use its directories`,
            "set pools.<name>.directory.selinuxLabel, for example to system_u:object_r:container_file_t:s0",
          ),
        )
      : []),
    ...(await checkLabels(config, host.run)),
  ];
};

async function checkLabels(config: DaemonConfig, run: CheckedHost["run"]): Promise<readonly Finding[]> {
  const { allocations } = await readRecords(config.recordsDirectory);
  const labelled = allocations.flatMap((allocation) =>
    deviceNamesOf(allocation).flatMap((device) => {
      const { selinuxLabel: label } = allocation.ownership;
      return label === undefined ? [] : [{ path: join(config.root, allocation.id, device), label }];
    }),
  );
  const checked = labelled.slice(0, MAX_LABELS);
  if (checked.length === 0) return [];
  const printed = await run("stat", ["--format=%C", "--", ...checked.map(({ path }) => path)]).catch(
    (error: unknown) => new Error(describeThrown(error)),
  );
  if (printed instanceof Error) return [skipped(`labels of directories cannot be read: ${printed.message}`)];
  const labels = printed.trim().split("\n");
  const wrong = checked.flatMap(({ path, label }, at) =>
    labels[at] === label
      ? []
      : [
          problem(
            `${path} has the label ${labels[at]}, it should be ${label}`,
            `its label was changed: chcon ${label} ${path}; restorecon needs a rule of its own for the root`,
          ),
        ],
  );
  return wrong.length > 0 ? wrong : [fine(`labels of ${checked.length} directories`)];
}
