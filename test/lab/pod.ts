import { readFileSync } from "node:fs";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Failure } from "../../src/failure/failure.ts";
import { type Child, type ChildOptions, startChild } from "../machine/child.ts";
import type { LabRun } from "../machine/lab-run.ts";
import { type RunOptions, type RunOutput, runProgram } from "../machine/run-program.ts";
import { waitUntil } from "../machine/wait-until.ts";
import { addNetworkNamespace, type NetworkNamespace } from "./network-namespace.ts";
import { runtimeSeccomp } from "./runtime-seccomp.ts";

/** A directory or file of the machine that a container sees at a path of its own. */
export interface Mount {
  readonly hostPath: string;
  readonly containerPath: string;
  /** Default false. */
  readonly readOnly?: boolean;
}

/** What to run in a container. */
export interface ContainerOptions extends Pick<ChildOptions, "env" | "stdin" | "stopLimitMs"> {
  /** Unique in the pod. */
  readonly name: string;
  /** Program and arguments, found in the container. It is process 1 there, as in a real one. */
  readonly command: readonly string[];
  readonly mounts?: readonly Mount[];
  /** User other than root: no capabilities, no new privileges. Default 0. */
  readonly uid?: number;
  readonly gid?: number;
  /** Size of the hugepages at /dev/hugepages; default 2M. */
  readonly hugepages?: "2M" | "1G";
  /** Makes all but the mounts read-only, as `readOnlyRootFilesystem` does. */
  readonly readOnlyRoot?: boolean;
  /**
   * Runs it under the seccomp profile `RuntimeDefault`, which allows the more the more capabilities the pod's manifest
   * adds: those named here. Default: without a profile.
   */
  readonly runtimeSeccomp?: readonly string[];
}

/** A running container. */
export interface Container extends Child {
  /** Pid of its first process as the machine sees it. */
  readonly hostPid: number;
  /** Runs a program in it, as root, to its end. */
  run(command: string, args?: readonly string[], options?: RunOptions): Promise<RunOutput>;
}

/** A pod: a network namespace and containers in it. */
export interface Pod {
  readonly name: string;
  /** The pod's directory on the machine; each container's log is `<container>.log` in it. */
  readonly directory: string;
  readonly network: NetworkNamespace;
  readonly run: LabRun;
  /**
   * Starts a container with a root, mounts, host name and pids of its own: the machine's /usr (read-only), an /etc
   * with what programs need, empty /run, /var and /tmp, hugetlbfs at /dev/hugepages.
   * @throws Failure internal, with its log, where it does not come up
   */
  startContainer(options: ContainerOptions): Promise<Container>;
  /** Ends its containers and deletes its network namespace. Idempotent. */
  close(): Promise<void>;
}

const START_LIMIT_MS = 60_000;
const BUILDER = fileURLToPath(new URL("./container.sh", import.meta.url));

/** Makes a pod; it goes with the run at the latest. */
export async function startPod(run: LabRun, name: string): Promise<Pod> {
  const directory = join(run.directory, name);
  await mkdir(directory, { recursive: true });
  const network = await addNetworkNamespace(run, name);
  const containers: Container[] = [];
  return {
    name,
    directory,
    network,
    run,
    startContainer: async (options) => {
      const container = await startContainer(run, { name, directory, network }, options);
      containers.push(container);
      return container;
    },
    close: async () => {
      for (const container of containers.toReversed()) await container.stop();
      await network.remove();
    },
  };
}

async function startContainer(
  run: LabRun,
  pod: Pick<Pod, "name" | "directory" | "network">,
  options: ContainerOptions,
): Promise<Container> {
  const directory = join(pod.directory, options.name);
  await mkdir(join(directory, "root"), { recursive: true });
  const seccomp = options.runtimeSeccomp && (await runtimeSeccomp(run, options.runtimeSeccomp));
  const mounts = [...(options.mounts ?? []), ...(seccomp?.mounts ?? [])];
  await writeFile(join(directory, "mounts"), mounts.map(mountLine).join(""));
  await writeFile(join(directory, "hugepages"), options.hugepages ?? "2M");
  await writeFile(join(directory, "root-mode"), options.readOnlyRoot === true ? "ro" : "rw");
  const pidFile = join(directory, "pid");
  const readPid = () => {
    try {
      return /^(\d+)\n/.exec(readFileSync(pidFile, "utf8"))?.[1];
    } catch {
      return undefined;
    }
  };
  const numeric = (text: string | undefined) => (text === undefined ? undefined : Number(text));
  const child = await startChild(run, {
    name: `${pod.name}/${options.name}`,
    command: "nsenter",
    args: [
      ...[
        `--net=${pod.network.path}`,
        "--",
        "unshare",
        "--mount",
        "--uts",
        "--pid",
        "--fork",
        "--kill-child",
      ],
      ...["--", "/bin/sh", BUILDER, directory, pod.name],
      ...[String(options.uid ?? 0), String(options.gid ?? options.uid ?? 0)],
      ...[...(seccomp?.prefix ?? []), ...options.command],
    ],
    signalPid: () => numeric(readPid()),
    ...(options.env === undefined ? {} : { env: options.env }),
    ...(options.stdin === undefined ? {} : { stdin: options.stdin }),
    ...(options.stopLimitMs === undefined ? {} : { stopLimitMs: options.stopLimitMs }),
  });
  let hostPid: number;
  try {
    hostPid = await waitUntil(() => (child.isRunning() ? numeric(readPid()) : 0), {
      what: `container ${child.name} is built`,
      limitMs: START_LIMIT_MS,
      signal: run.cleanup.signal,
      everyMs: 5,
    });
    if (hostPid === 0) throw new Error(`it ended with ${await child.ended}`);
  } catch (cause) {
    const log = await readFile(child.log, "utf8").catch(() => "");
    await child.stop();
    throw new Failure({
      code: "internal",
      what: `container ${child.name} did not come up: ${log.trim().slice(-1500)}`,
      cause,
    });
  }
  const inside = ["--target", String(hostPid), "--mount", "--uts", "--net", "--pid", "--"];
  return {
    ...child,
    hostPid,
    run: (command, args = [], runOptions) => runProgram("nsenter", [...inside, command, ...args], runOptions),
  };
}

function mountLine(mount: Mount): string {
  return `${mount.readOnly === true ? "ro" : "rw"}\t${mount.hostPath}\t${mount.containerPath}\n`;
}
