import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type Child, startChild } from "../machine/child.ts";
import type { LabRun } from "../machine/lab-run.ts";
import { descendantsOf } from "../machine/process-table.ts";
import { type RunOutput, runProgram } from "../machine/run-program.ts";
import { removeCgroup } from "../machine/undo-trace.ts";
import { waitUntil } from "../machine/wait-until.ts";

/** Address of the API server's Service, where the API server on the first node listens itself. */
export const SERVICE_ADDRESS = "10.96.0.1";
const CGROUPS = "/sys/fs/cgroup";
/** Directories that a node has of its own: with the machine's files below, and its changes on the node's disk. */
const OWN_DIRECTORIES = ["etc", "opt", "var"];
/** Of these, what must not lie on an overlay: kubelet measures it, and mounts overlays of its own in it. */
const ON_DISK = ["var/lib/kubelet", "var/lib/containerd"];

/**
 * A machine for a node: process, mount, network, host name and IPC namespaces of its own on this one, with the file system
 * of this one, on which it writes to a directory. It has no way to another network but to the nodes it is connected with.
 */
export class NodeMachine {
  readonly name: string;
  /** Of its bridge `node0`, in a network of /24. */
  readonly address: string;
  /** The pods' own network. */
  readonly podSubnet: string;
  /** Its disk, which survives a reboot. */
  readonly disk: string;
  /** Below which kubelet makes the pods' control groups. */
  readonly cgroup: string;
  readonly #run: LabRun;
  readonly #number: number;
  #machine: Child | undefined;
  #init = 0;
  #boots = 0;

  /** @param number of the node, from 1: the first one has the API server's Service */
  constructor(run: LabRun, number: number) {
    this.#run = run;
    this.#number = number;
    this.name = `node-${number}`;
    this.address = `10.89.0.${number}`;
    this.podSubnet = `10.244.${number}.0/24`;
    this.disk = join(run.directory, `disk-${number}`);
    this.cgroup = `/${run.name}-${number}`;
  }

  /** Its first process, by its number on this machine. */
  get pid(): number {
    return this.#init;
  }

  /** Starts it: /run is empty, the disk is as it was. */
  async boot(): Promise<void> {
    this.#boots += 1;
    if (this.#boots === 1) await this.#makeCgroups();
    const ready = join(this.disk, `booted-${this.#boots}`);
    for (const each of OWN_DIRECTORIES) {
      await mkdir(join(this.disk, each), { recursive: true });
      await mkdir(join(this.disk, `work/${each}`), { recursive: true });
    }
    for (const each of ON_DISK) await mkdir(join(this.disk, "direct", each), { recursive: true });
    const script = [
      // This machine's named network namespaces would live as long as the node.
      "umount --recursive --lazy /run/netns 2>/dev/null || true",
      "mount -t tmpfs -o mode=755 tmpfs /run",
      ...OWN_DIRECTORIES.map(
        (each) =>
          `mount -t overlay -o lowerdir=/${each},upperdir=${this.disk}/${each},workdir=${this.disk}/work/${each} overlay /${each}`,
      ),
      ...ON_DISK.map((each) => `mkdir -p /${each} && mount --bind ${this.disk}/direct/${each} /${each}`),
      // As systemd has it; a container's Bidirectional mounts reach the node by it.
      "mount --make-rshared /",
      "ip link set lo up",
      "ip link add node0 type bridge && ip link set node0 up",
      `ip address add ${this.address}/24 dev node0`,
      ...(this.#number === 1 ? [`ip address add ${SERVICE_ADDRESS}/32 dev node0`] : []),
      "echo 1 > /proc/sys/net/ipv4/ip_forward",
      `touch ${ready}`,
      // The kernel's name of the machine, which programs in pods of the host's network take for the node's.
      `hostname ${this.name}`,
      "exec sleep infinity",
    ].join("\n");
    const machine = await startChild(this.#run, {
      name: `${this.name}-machine`,
      command: "unshare",
      args: [
        ...["--mount", "--net", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc"],
        ...["sh", "-ec", script],
      ],
      // unshare ignores SIGTERM; its end ends everything in the process namespace.
      stopSignal: "SIGKILL",
    });
    this.#machine = machine;
    const booted = waitUntil(() => existsSync(ready), { what: "the node's machine is up" });
    await Promise.race([booted, machine.died]);
    this.#init = descendantsOf(machine.pid)[0] ?? -1;
  }

  /** Connects its bridge with the first node's, and routes the pods' networks and the API server's Service. Both are up. */
  async connect(other: NodeMachine): Promise<void> {
    const [own, others] = [this.#init, other.#init];
    const end = (pid: number) => ["netns", String(pid)];
    await runProgram("ip", [
      ...["link", "add", `to-${other.name}`, ...end(own), "type", "veth"],
      ...["peer", "name", `to-${this.name}`, ...end(others)],
    ]);
    for (const [one, peer] of [
      [this, other],
      [other, this],
    ] as const) {
      await one.sh(
        `ip link set to-${peer.name} master node0 up && ip route add ${peer.podSubnet} via ${peer.address}`,
      );
    }
    await this.sh(`ip route add ${SERVICE_ADDRESS}/32 via ${other.address}`);
  }

  /** All its processes end at once, and all its mounts are gone. */
  async powerOff(): Promise<void> {
    await this.#machine?.stop();
    // What had a pid in it is gone when its init is, which the kernel reaps last.
    const isGone = () => !existsSync(`/proc/${this.#init}`);
    await waitUntil(isGone, { what: "the node's processes are gone" });
  }

  /** Starts a program in it, which ends with it. */
  start(name: string, command: string, args: readonly string[]): Promise<Child> {
    let started: Child | undefined;
    const program = startChild(this.#run, {
      ...{ name, command: "nsenter", stopLimitMs: 20_000 },
      args: [...this.#enter(), "setpriv", "--pdeathsig", "KILL", "--", command, ...args],
      // nsenter waits for its child, which is in the process namespace.
      signalPid: () => (started === undefined ? undefined : descendantsOf(started.pid)[0]),
    });
    return program.then((child) => {
      started = child;
      return child;
    });
  }

  /** Runs a program in it to its end. */
  exec(command: string, args: readonly string[], options?: Parameters<typeof runProgram>[2]) {
    return runProgram("nsenter", [...this.#enter(), command, ...args], options);
  }

  /** What a program and its arguments follow to run in it: `nsenter` with its options. */
  get entry(): readonly string[] {
    return ["nsenter", ...this.#enter()];
  }

  /** Runs a shell script in it. */
  sh(script: string): Promise<RunOutput> {
    return this.exec("sh", ["-ec", script]);
  }

  /** Writes a file that only the node has, for example `/etc/cni/net.d/00-multus.conf`. */
  async write(path: string, content: string): Promise<void> {
    await this.exec("sh", ["-ec", 'mkdir -p "$(dirname "$0")" && cat > "$0"', path], { input: content });
  }

  /** Programs in it see this machine's memory and each of its processors in turn on that many NUMA nodes. Repeatable. */
  async showNumaNodes(count: number): Promise<void> {
    const nodes = "/sys/devices/system/node";
    await this.sh(`
      if mountpoint -q ${nodes}; then exit; fi
      cp ${nodes}/node0/meminfo ${nodes}/online /run/
      mount -t tmpfs -o mode=755 tmpfs ${nodes}
      for node in $(seq 0 ${count - 1}); do
        mkdir -p ${nodes}/node$node/hugepages
        sed "s/^Node 0/Node $node/" /run/meminfo > ${nodes}/node$node/meminfo
        for other in $(seq 0 ${count - 1}); do
          [ $node = $other ] && printf '10 ' || printf '20 '
        done > ${nodes}/node$node/distance
      done
      for cpu in /sys/devices/system/cpu/cpu[0-9]*; do
        ln -s $cpu ${nodes}/node$((\${cpu##*cpu} % ${count}))/
      done
      echo 0-${count - 1} > ${nodes}/online`);
  }

  #enter(): readonly string[] {
    return [`--target=${this.#init}`, "--mount", "--net", "--uts", "--ipc", "--pid", "--"];
  }

  /** One in each hierarchy, or the one of version 2. */
  async #makeCgroups(): Promise<void> {
    const v2 = existsSync(join(CGROUPS, "cgroup.controllers"));
    const hierarchies = v2 ? [CGROUPS] : (await readdir(CGROUPS)).map((name) => join(CGROUPS, name));
    for (const hierarchy of hierarchies) {
      const path = join(hierarchy, this.cgroup);
      const trace = this.#run.journal.note({ kind: "cgroup", path });
      this.#run.cleanup.defer(`remove ${path}`, async () => {
        await removeCgroup(path);
        this.#run.journal.strike(trace);
      });
      await mkdir(path);
      if (v2) {
        const controllers = (await readFile(join(path, "cgroup.controllers"), "utf8")).split(/\s+/);
        const enable = controllers.filter((each) => each !== "").map((each) => `+${each}`);
        await writeFile(join(path, "cgroup.subtree_control"), enable.join(" "));
      }
    }
  }
}

/** Copies programs to where the node's own are. */
export async function installPrograms(machine: NodeMachine, files: Readonly<Record<string, string>>) {
  for (const [target, source] of Object.entries(files)) {
    await machine.exec("install", ["-D", "--mode=755", source, target]);
  }
}
