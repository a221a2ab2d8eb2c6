import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { Guest } from "../guest/guest.ts";
import { identifyProcess } from "../machine/process-table.ts";
import { runProgram } from "../machine/run-program.ts";
import { waitUntil } from "../machine/wait-until.ts";
import { apply } from "./claims-cluster.ts";
import { GUEST_IMAGE, type KubeVirtRig } from "./kubevirt-rig.ts";

const NAMESPACE = "tests";
/** Of a start or a migration under emulation on a busy machine. */
const LIMIT_MS = 600_000;

/** What the tests read of a VirtualMachineInstance. */
export interface Vmi {
  readonly metadata: { readonly uid: string };
  readonly status?: {
    readonly phase?: string;
    readonly nodeName?: string;
    readonly interfaces?: readonly { readonly name?: string; readonly mac?: string }[];
    readonly migrationState?: MigrationState;
  };
}

/** The last migration of a VM. */
export interface MigrationState {
  readonly migrationUid?: string;
  readonly completed?: boolean;
  readonly failed?: boolean;
  readonly failureReason?: string;
  readonly sourceNode?: string;
  readonly targetNode?: string;
  /** RFC 3339, in seconds. */
  readonly startTimestamp?: string;
  readonly endTimestamp?: string;
}

/** A VirtualMachine of KubeVirt with a vhost-user interface `net1`, and the guest in it. */
export class KubeVirtVm {
  readonly name: string;
  /** Of the guest's interface `net1`, with prefix. */
  readonly address: string;
  readonly #rig: KubeVirtRig;
  readonly #mac: string | undefined;
  #guest: Guest | undefined;

  /** @param mac left out, KubeVirt and the sidecar choose */
  constructor(rig: KubeVirtRig, name: string, address: string, mac?: string) {
    this.#rig = rig;
    this.name = name;
    this.address = address;
    this.#mac = mac;
  }

  /** Creates it, waits until it runs, and gives the guest its address. */
  async start(): Promise<void> {
    await apply(this.#rig.cluster, this.#manifest());
    await this.untilGuestIsUp();
  }

  /** By `virtctl restart`. */
  async restart(): Promise<void> {
    const { uid } = (await this.vmi()).metadata;
    await this.#rig.virtctl(`restart ${this.name}`);
    const isAnother = async () => (await this.vmi()).metadata.uid !== uid;
    await this.#eventually("has restarted", isAnother);
    await this.untilGuestIsUp();
  }

  /** By `virtctl migrate`. @throws Failure with KubeVirt's reason where the migration fails */
  async migrate(): Promise<MigrationState> {
    const last = (await this.vmi()).status?.migrationState?.migrationUid;
    await this.#rig.virtctl(`migrate ${this.name}`);
    let state: MigrationState | undefined;
    await this.#eventually("has migrated", async () => {
      state = (await this.vmi()).status?.migrationState;
      return state?.migrationUid !== last && (state?.completed === true || state?.failed === true);
    });
    if (state?.failed === true) throw new Error(`the migration failed: ${state.failureReason}`);
    await this.#eventually("runs on the target", async () => (await this.node()) === state?.targetNode);
    this.#guest?.console.moveTo(await this.#console());
    return state ?? {};
  }

  /** Waits until it runs and the guest has its address. */
  async untilGuestIsUp(): Promise<void> {
    await this.#eventually("runs", async () => (await this.vmi()).status?.phase === "Running");
    this.#guest?.console.close();
    this.#guest = new Guest(this.name, await this.#console());
    await this.#guest.waitForBoot({ limitMs: LIMIT_MS });
    await this.#guest.setAddress(await this.mac(), this.address);
  }

  async vmi(): Promise<Vmi> {
    return JSON.parse(await this.#rig.kubectl(`-n ${NAMESPACE} get vmi ${this.name} --output json`)) as Vmi;
  }

  async node(): Promise<string> {
    return (await this.vmi()).status?.nodeName ?? "";
  }

  /** Of `net1`, as KubeVirt reports it. */
  mac(): Promise<string> {
    return waitUntil(
      async () => (await this.vmi()).status?.interfaces?.find(({ name }) => name === "net1")?.mac,
      { what: `KubeVirt reports ${this.name}'s MAC`, limitMs: LIMIT_MS, everyMs: 500 },
    );
  }

  get guest(): Guest {
    if (this.#guest === undefined) throw new Error(`${this.name} was not started`);
    return this.#guest;
  }

  /** Name of its newest pod. */
  async pod(): Promise<string> {
    const pods = `-n ${NAMESPACE} get pods --selector vm.kubevirt.io/name=${this.name}`;
    const names = await this.#rig.kubectl(`${pods} --sort-by=.metadata.creationTimestamp --output name`);
    return names.trim().split("\n").at(-1) ?? "";
  }

  /** Runs a program of its pod's image, and gives what it prints: `qemu` is the one that runs. */
  async runOfImage(program: string, ...args: readonly string[]): Promise<string> {
    const pid = this.#qemu();
    const path = program === "qemu" ? readlinkSync(`/proc/${pid}/exe`) : program;
    return (await runProgram("chroot", [`/proc/${pid}/root`, path, ...args])).stdout;
  }

  close(): void {
    this.#guest?.console.close();
  }

  /** The serial console's socket of the newest QEMU. */
  async #console(): Promise<string> {
    const { uid } = (await this.vmi()).metadata;
    return `/proc/${this.#qemu()}/root/run/kubevirt-private/${uid}/virt-serial0`;
  }

  /** Its newest QEMU, by its number on this machine. */
  #qemu(): number {
    const machines = this.#rig.machines.map(({ cgroup }) => `${cgroup}/`);
    const [newest] = processesWith(`guest=${NAMESPACE}_${this.name},`, machines).toSorted(
      (one, other) => startOf(other) - startOf(one),
    );
    if (newest === undefined) throw new Error(`no QEMU of ${this.name} runs`);
    return newest;
  }

  #eventually(what: string, poll: () => Promise<boolean>): Promise<unknown> {
    const options = { what: `VM ${this.name} ${what}`, limitMs: LIMIT_MS, everyMs: 500 };
    return waitUntil(() => poll().catch(() => false), options);
  }

  #manifest(): object {
    const labels = { lab: "vm" };
    const term = { topologyKey: "kubernetes.io/hostname", labelSelector: { matchLabels: labels } };
    const boot = { kernelPath: "/boot/kernel", initrdPath: "/boot/initrd" };
    const net1 = {
      ...{ name: "net1", binding: { name: "vhostuser" } },
      ...(this.#mac === undefined ? {} : { macAddress: this.#mac }),
    };
    return {
      ...{ apiVersion: "kubevirt.io/v1", kind: "VirtualMachine" },
      metadata: { name: this.name, namespace: NAMESPACE },
      spec: {
        runStrategy: "Always",
        template: {
          metadata: { labels },
          spec: {
            ...{
              terminationGracePeriodSeconds: 0,
              architecture: process.arch === "arm64" ? "arm64" : "amd64",
            },
            affinity: {
              podAntiAffinity: {
                preferredDuringSchedulingIgnoredDuringExecution: [{ weight: 100, podAffinityTerm: term }],
              },
            },
            domain: {
              ...{ cpu: { cores: 1 }, memory: { guest: "256Mi" } },
              firmware: {
                kernelBoot: {
                  kernelArgs: this.#rig.guest.cmdline,
                  container: { image: GUEST_IMAGE, imagePullPolicy: "IfNotPresent", ...boot },
                },
              },
              devices: { interfaces: [{ name: "default", masquerade: {} }, net1] },
            },
            networks: [
              { name: "default", pod: {} },
              { name: "net1", multus: { networkName: "vhostuser-network" } },
            ],
          },
        },
      },
    };
  }
}

/** Processes of control groups below one of `cgroups` whose command line contains a text, by their numbers here. */
export function processesWith(text: string, cgroups: readonly string[]): readonly number[] {
  const read = (path: string) => {
    try {
      return readFileSync(path, "utf8");
    } catch {
      return ""; // it has ended
    }
  };
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      if (!read(`/proc/${pid}/cmdline`).includes(text)) return false;
      const groups = read(`/proc/${pid}/cgroup`);
      return cgroups.some((cgroup) => groups.includes(cgroup));
    })
    .map(Number);
}

const startOf = (pid: number) => Number(identifyProcess(pid)?.startTime ?? 0);
