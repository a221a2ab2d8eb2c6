import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { type ClusterNode, SOCKETS } from "../cluster/cluster-node.ts";
import { type Container, type Pod, startPod } from "../lab/pod.ts";
import type { LabRun } from "../machine/lab-run.ts";
import { runProgram } from "../machine/run-program.ts";
import { waitUntil } from "../machine/wait-until.ts";
import { limitedCgroup } from "../shim/limited-cgroup.ts";
import { partMissing } from "../shim/part-missing.ts";
import type { SelectedNetwork } from "../stand-in/multus/network.ts";
import type { NetworkStatus } from "../stand-in/multus/network-status.ts";

/** A pod with an allocation and a network as `net1`. */
export interface AttachedPod {
  readonly name: string;
  /** Its allocation's directory as the node sees it. */
  readonly hostDirectory: string;
  /** The same as the pod sees it. */
  readonly directory: string;
  /** Device that kubelet gave to it. */
  readonly device: string;
  /** What Multus writes about its networks into the pod's annotation. */
  readonly networkStatus: readonly NetworkStatus[];
  /** Runs JavaScript in a container of it, as a user without capabilities; `say(text)` writes a line to its log. */
  run(name: string, script: string, uid?: number): Promise<Container>;
  /** Starts `test/lab/hostile-pod.c` in a memory cgroup of its own, and lets it begin. */
  attack(attack: Attack): Promise<RunningAttack>;
  /** The same as `run`, until it ends; what it said. */
  runToEnd(name: string, script: string, uid?: number): Promise<string>;
  /** Network and pod go, while its containers still run. */
  forget(): Promise<void>;
  /** Container, network and pod go, in kubelet's order; the second time nothing happens. */
  remove(): Promise<void>;
}

/** What a pod does to its interface's directory, as whom, and in which bounds. */
export interface Attack {
  readonly kind: "files" | "directories" | "attributes" | "temporaries" | "bytes" | "exchange";
  /** 0 has the capabilities that a container has by default, another none. */
  readonly uid: number;
  readonly memoryBytes: number;
}

/** Processor time of an attack: several at once leave some to the others. */
const ATTACK_CPU_MILLIS = 400;

/** A container that attacks. */
export interface RunningAttack extends AsyncDisposable {
  readonly container: Container;
  /** How often the kernel killed in the pod's cgroup for want of memory. */
  oomKills(): Promise<number>;
}

/** Of containerd and CRI-O, for a pod that says nothing about its capabilities. */
const DEFAULT_CAPABILITIES = [
  ...["chown", "dac_override", "fowner", "fsetid", "kill", "setgid", "setuid", "setpcap", "net_bind_service"],
  ...["net_raw", "sys_chroot", "mknod", "audit_write", "setfcap"],
];

const PRELUDE = `
  process.on("SIGTERM", () => process.exit());
  const fs = require("node:fs"), net = require("node:net"), say = (text) => fs.writeSync(1, text + "\\n");
  const tried = (what) => { try { return String(what() ?? "done") } catch (error) { return error.code } };`;

/** kubelet admits the pod, and Multus attaches its network. */
export async function attachPod(
  run: LabRun,
  node: ClusterNode,
  network: SelectedNetwork,
  name: string,
): Promise<AttachedPod> {
  const admission = await node.kubelet.admitPod({
    namespace: "tests",
    name,
    containers: [{ name: "main", resources: { [SOCKETS]: 1 } }],
  });
  if (admission.phase === "Failed") throw new Error(`pod ${name}: ${admission.message}`);
  const [admitted] = admission.containers;
  const [mount] = admitted?.mounts ?? [];
  if (mount === undefined) throw new Error(`pod ${name} has no mount`);
  const pod: Pod = await startPod(run, name);
  const sandbox = {
    pod: { namespace: "tests", name, uid: admission.uid },
    containerId: randomBytes(32).toString("hex"),
    netns: pod.network.path,
  };
  let isForgotten = false;
  const forget = async () => {
    if (isForgotten) return;
    isForgotten = true;
    await node.multus.detach(sandbox);
    node.kubelet.removePod({ namespace: "tests", name });
  };
  const remove = async () => {
    await pod.close();
    await forget();
  };
  const networks = [{ ...network, interface: "net1" }];
  const { networkStatus } = await node.multus
    .attach({ ...sandbox, networks })
    .catch(async (error: unknown) => {
      await remove();
      throw error;
    });
  const nodeDirectory = dirname(process.execPath);
  let isRemoved = false;
  const start = (containerName: string, script: string, uid = 107) =>
    pod.startContainer({
      name: containerName,
      command: ["/node/node", "-e", PRELUDE + script],
      mounts: [mount, { hostPath: nodeDirectory, containerPath: "/node", readOnly: true }],
      uid,
      gid: uid,
      env: { ...admitted?.envs },
    });
  const attack = async ({ kind, uid, memoryBytes }: Attack): Promise<RunningAttack> => {
    const program = await compileHostilePod(run);
    const cgroup = await limitedCgroup(run.journal, `${run.name}-${name}`, {
      memoryBytes,
      cpuMillis: ATTACK_CPU_MILLIS,
    });
    const bounded = [
      ...["setpriv", `--bounding-set=-all,${DEFAULT_CAPABILITIES.map((one) => `+${one}`).join(",")}`],
      ...["--inh-caps=-all", "--"],
    ];
    const container = await pod.startContainer({
      name: kind,
      command: [...(uid === 0 ? bounded : []), "/hostile-pod", kind, `${mount.containerPath}/net1`],
      mounts: [mount, { hostPath: program, containerPath: "/hostile-pod", readOnly: true }],
      ...{ uid, gid: uid },
    });
    await said(container, "ready");
    await cgroup.moveIn(container.hostPid);
    await writeFile(join(mount.hostPath, "net1/go"), "");
    await said(container, "begun");
    return {
      container,
      oomKills: () => cgroup.oomKills(),
      [Symbol.asyncDispose]: async () => {
        await container.stop("SIGKILL");
        await cgroup[Symbol.asyncDispose]();
      },
    };
  };
  return {
    name,
    attack,
    forget,
    hostDirectory: mount.hostPath,
    directory: mount.containerPath,
    device: admitted?.deviceIds[SOCKETS]?.[0] ?? "",
    networkStatus,
    run: start,
    runToEnd: async (containerName, script, uid) => {
      const container = await start(containerName, script, uid);
      await container.ended;
      return readFile(container.log, "utf8");
    },
    remove: async () => {
      if (!isRemoved) await remove();
      isRemoved = true;
    },
  };
}

let hostilePod: Promise<string> | undefined;

/** @throws Failure part-missing */
function compileHostilePod(run: LabRun): Promise<string> {
  const output = join(run.directory, "hostile-pod");
  const source = join(import.meta.dirname, "../lab/hostile-pod.c");
  hostilePod ??= runProgram("musl-gcc", ["-static", "-O2", "-o", output, source])
    .catch(partMissing("musl-gcc", "gcc musl-tools"))
    .then(() => output);
  return hostilePod;
}

/** Waits until a container has said something. */
export async function said(container: Container, text: string): Promise<void> {
  await waitUntil(async () => (await readFile(container.log, "utf8")).includes(text), {
    what: `${container.name} says ${text}`,
    detail: () => readFileSync(container.log, "utf8"),
  });
}
