import { readdir, readFile, readlink } from "node:fs/promises";
import { basename, join } from "node:path";
import type { DataplaneConfig } from "../../dataplane/open-dataplane.ts";
import { switchProgram } from "../../dataplane/switch-kind.ts";

/** A process that passes for a switch. */
export interface SwitchProcess {
  readonly pid: string;
  readonly name: string;
  /** The program that it runs; undefined where only root may know, and its name alone speaks for it. */
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
      // It may have ended meanwhile.
      const text = await readFile(join(proc, pid, "status"), "utf8").catch(() => "");
      const field = (name: string) => new RegExp(`^${name}:\\s*(.*)$`, "m").exec(text)?.[1] ?? "";
      const name = field("Name");
      if (!wanted.test(name)) return [];
      const numbers = (of: string) => field(of).split(/\s+/).filter(Boolean).map(Number);
      const [, uid = -1] = numbers("Uid");
      const [, gid = -1] = numbers("Gid");
      const link = await readlink(join(proc, pid, "exe")).catch(() => undefined);
      // Replaced by an upgrade, which it has not been restarted for.
      const program = link?.replace(/ \(deleted\)$/, "");
      return { pid, name, program, uid, groups: [gid, ...numbers("Groups")] };
    }),
  );
  return found.flat();
}
