import { access, mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { Failure } from "../../src/failure/failure.ts";
import { type Child, startChild } from "../machine/child.ts";
import type { LabRun } from "../machine/lab-run.ts";
import { runProgram } from "../machine/run-program.ts";

const INSTALL_OVS = "apt-get install --no-install-recommends openvswitch-switch-dpdk";
/** Time for OVS programs to end; DPDK frees its memory first. */
export const STOP_LIMIT_MS = 10_000;
const SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema";

/** A real ovsdb-server with a database and a socket of its own; no switch behind it. */
export interface OvsdbServer {
  readonly directory: string;
  /** Path of the unix socket. */
  readonly databaseSocket: string;
  /** Pid of the running server. */
  pid(): number;
  /** Runs ovs-vsctl on this database and returns what it prints. It does not wait for a switch to apply it. */
  vsctl(...args: string[]): Promise<string>;
  /** SIGKILL, as in a crash: the socket file stays, the database too. */
  kill(): Promise<void>;
  /** Starts it again on the same database, stopping it first where it runs. */
  restart(): Promise<void>;
  /** Starts it again on a database that is as new, as after the loss of the disk's. */
  startEmpty(): Promise<void>;
  close(): Promise<void>;
}

/** Environment that keeps the OVS tools out of the system's directories. */
export function ovsEnvironment(directory: string): Record<string, string> {
  return { OVS_RUNDIR: directory, OVS_DBDIR: directory, OVS_LOGDIR: directory, OVS_SYSCONFDIR: directory };
}

/**
 * Runs one of the OVS tools to its end.
 * @throws Failure part-missing where it is not installed, else what it said on standard error
 */
export async function runOvsTool(directory: string, tool: string, args: readonly string[]): Promise<string> {
  try {
    return (await runProgram(tool, args, { env: ovsEnvironment(directory) })).stdout.trim();
  } catch (failure) {
    if (failure instanceof Failure && failure.code === "part-missing") throw missingOvs(tool, failure);
    throw failure;
  }
}

/** The failure that names the package OVS comes from. */
export function missingOvs(part: string, cause?: unknown): Failure {
  return new Failure({ code: "part-missing", what: `${part} is not installed`, fix: INSTALL_OVS, cause });
}

/**
 * Makes a database in `directory` (created when missing, shorter than about 90 bytes) and serves it until the run
 * ends or it is closed.
 */
export async function startOvsdbServer(
  run: LabRun,
  { directory }: { readonly directory: string },
): Promise<OvsdbServer> {
  await mkdir(directory, { recursive: true });
  await access(SCHEMA).catch((cause: unknown) => {
    throw missingOvs(SCHEMA, cause);
  });
  const database = join(directory, "conf.db");
  const databaseSocket = join(directory, "db.sock");
  const create = () => runOvsTool(directory, "ovsdb-tool", ["create", database, SCHEMA]);
  await create();

  const vsctl = (...args: string[]) =>
    runOvsTool(directory, "ovs-vsctl", [`--db=unix:${databaseSocket}`, "--retry", "--timeout=50", ...args]);
  const start = async (): Promise<Child> => {
    const program = await startChild(run, {
      name: "ovsdb-server",
      command: "ovsdb-server",
      args: [
        database,
        `--remote=punix:${databaseSocket}`,
        `--unixctl=${join(directory, "ovsdb-server.ctl")}`,
        `--log-file=${join(directory, "ovsdb-server.log")}`,
        "-vconsole:off",
      ],
      env: ovsEnvironment(directory),
      fix: INSTALL_OVS,
      logDirectory: directory,
      stopLimitMs: STOP_LIMIT_MS,
    });
    await Promise.race([vsctl("--no-wait", "init"), program.died]);
    return program;
  };

  let program = await start();
  return {
    directory,
    databaseSocket,
    pid: () => program.pid,
    vsctl: (...args) => vsctl("--no-wait", ...args),
    kill: () => program.stop("SIGKILL"),
    restart: async () => {
      await program.stop();
      program = await start();
    },
    startEmpty: async () => {
      await program.stop();
      await rm(database);
      await create();
      program = await start();
    },
    close: () => program.stop(),
  };
}
