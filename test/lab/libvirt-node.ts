import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { chmod, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { runProgram } from "../machine/run-program.ts";
import { waitUntil } from "../machine/wait-until.ts";
import { type DomainVerbs, domainVerbs } from "./domain-verbs.ts";
import type { Container, Mount, Pod } from "./pod.ts";

/** The libvirtd of one pod, as each virt-launcher pod has its own. */
export interface LibvirtNode extends DomainVerbs {
  /** The compute container that libvirtd and QEMU run in. */
  readonly container: Container;
  /** libvirtd's socket as the machine sees it. */
  readonly socket: string;
  /** The URI for virsh on the machine. */
  readonly uri: string;
  /** The URI by which another node's libvirtd reaches this one. */
  readonly peerUri: string;
  /** A unix socket, in a directory that all nodes of the run see, to receive a migration's memory on. */
  readonly migrationUri: string;
  /** Log of libvirtd; QEMU's logs are in `qemu` beside it. */
  readonly logDirectory: string;
  /** Runs virsh against this node. */
  virsh(...args: string[]): Promise<string>;
  /** Destroys its domains, ends libvirtd and the container. Idempotent. */
  close(): Promise<void>;
}

/** How to start a node. */
export interface LibvirtNodeOptions {
  /** What the compute container sees besides the machine's /usr. */
  readonly mounts?: readonly Mount[];
  readonly env?: Readonly<Record<string, string>>;
  /** User and group of QEMU, KubeVirt's 107 by default. */
  readonly qemuUser?: number;
  /** Size of the hugepages that guests may have; default 2M. */
  readonly hugepages?: "2M" | "1G";
}

/** Where all nodes of a run see each other's sockets. */
const PEERS = "/run/peers";
const QEMU = "qemu-system-x86_64";
/**
 * QEMU's emulation (10.0) with a thread for each CPU aborts now and then in iotlb_to_section when a guest maps a device's
 * memory while its other CPUs run, as it does when it boots. libvirt has no setting for one thread for all CPUs.
 */
const SINGLE_THREADED_QEMU = `#!/bin/sh
for argument; do
	shift
	if [ "$argument" = tcg ]; then argument=tcg,thread=single; fi
	set -- "$@" "$argument"
done
exec /usr/bin/${QEMU} "$@"
`;
const START_LIMIT_MS = 60_000;
/** A guest starts once the switch has connected, and a busy machine takes its time to move one. */
const VIRSH_LIMIT_MS = 240_000;

/**
 * Starts the compute container of a pod with a libvirtd of its own. QEMU runs as user 107 with TCG's needs only: no
 * security driver, no namespaces and no cgroups, because the container is the isolation.
 */
export async function startLibvirtNode(pod: Pod, options: LibvirtNodeOptions = {}): Promise<LibvirtNode> {
  const base = join(pod.directory, "libvirt");
  const etc = join(base, "etc");
  const programs = join(base, "bin");
  const logDirectory = join(base, "log");
  const peers = join(pod.run.directory, "peers");
  const sockets = join(peers, pod.name);
  for (const directory of [etc, programs, logDirectory, sockets]) await mkdir(directory, { recursive: true });
  await chmod(peers, 0o777); // QEMU's user binds the migration socket there
  const user = options.qemuUser ?? 107;
  await writeFile(join(etc, "libvirtd.conf"), libvirtdConfig(pod));
  await writeFile(join(etc, "qemu.conf"), qemuConfig(user));
  await writeFile(join(programs, QEMU), SINGLE_THREADED_QEMU, { mode: 0o755 });

  const container = await pod.startContainer({
    name: "compute",
    // Process 1 must reap QEMU, which detaches itself from libvirtd.
    command: [
      "/bin/sh",
      "-c",
      '"$@" & trap "exit 0" TERM; while :; do sleep 3600 & wait $!; done',
      "init",
    ].concat([...["/usr/sbin/libvirtd", "--pid-file", "/run/libvirtd.pid"]]),
    mounts: [
      { hostPath: etc, containerPath: "/etc/libvirt" },
      { hostPath: programs, containerPath: "/usr/local/bin" },
      { hostPath: logDirectory, containerPath: "/var/log/libvirt" },
      { hostPath: sockets, containerPath: "/run/libvirt" },
      { hostPath: peers, containerPath: PEERS },
      ...(options.mounts ?? []),
    ],
    env: { PATH: "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", ...options.env },
    ...(options.hugepages === undefined ? {} : { hugepages: options.hugepages }),
  });
  const socket = join(sockets, "libvirt-sock");
  const uri = `qemu+unix:///system?socket=${socket}`;
  const virsh = async (...args: string[]) =>
    (await runProgram("virsh", ["-q", "-c", uri, ...args], { limitMs: VIRSH_LIMIT_MS })).stdout;
  await waitUntil(
    async () => {
      if (!container.isRunning()) throw new Error(`libvirtd's container ended: ${await container.logTail()}`);
      return existsSync(socket) && (await virsh("uri").catch(() => false));
    },
    { what: `libvirtd of ${pod.name} answers`, limitMs: START_LIMIT_MS, signal: pod.run.cleanup.signal },
  );
  return {
    container,
    socket,
    uri,
    peerUri: `qemu+unix:///system?socket=${PEERS}/${pod.name}/libvirt-sock`,
    migrationUri: `unix://${PEERS}/${pod.name}.migration`,
    logDirectory,
    virsh,
    ...domainVerbs(virsh, pod.directory),
    close: async () => {
      if (!container.isRunning()) return;
      await destroyAll(virsh);
      await container.stop();
    },
  };
}

async function destroyAll(virsh: LibvirtNode["virsh"]): Promise<void> {
  const names = await virsh("list", "--name").catch(() => ""); // a dead libvirtd: the container's end ends QEMU
  for (const name of names.split("\n").filter((line) => line.trim() !== "")) {
    await virsh("destroy", name.trim()).catch(() => undefined);
  }
}

function libvirtdConfig(pod: Pod): string {
  return [
    'auth_unix_ro = "none"',
    'auth_unix_rw = "none"',
    'unix_sock_dir = "/run/libvirt"',
    // Two nodes on one machine have one SMBIOS; libvirt refuses to migrate to its own host.
    `host_uuid = "${randomUUID()}"`,
    `log_outputs = "2:file:/var/log/libvirt/libvirtd-${pod.name}.log"`,
    "",
  ].join("\n");
}

function qemuConfig(user: number): string {
  return [
    `user = "+${user}"`,
    `group = "+${user}"`,
    "dynamic_ownership = 1",
    "remember_owner = 0",
    'security_driver = "none"',
    "namespaces = []",
    "cgroup_controllers = []",
    'stdio_handler = "file"',
    "",
  ].join("\n");
}
