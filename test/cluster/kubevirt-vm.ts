import type { Server } from "node:net";
import { join } from "node:path";
import { Guest } from "../guest/guest.ts";
import { waitUntil } from "../machine/wait-until.ts";
import { apply } from "./claims-cluster.ts";
import { serveConsole } from "./kubevirt-console.ts";
import type { KubeVirtRig } from "./kubevirt-rig.ts";
import { VMS, type VmNetworks, vmManifest } from "./kubevirt-vm-manifest.ts";

/** Of a start or a migration under emulation on a busy machine. */
const LIMIT_MS = 600_000;
/** libvirt's of virt-launcher, whose user is not root. */
const LIBVIRT = "qemu+unix:///session?socket=/var/run/libvirt/virtqemud-sock";

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

/** What they read of pods. */
interface Pods {
  readonly items: readonly {
    readonly metadata: { readonly name: string };
    readonly status: {
      readonly containerStatuses?: readonly {
        readonly name: string;
        readonly state: { readonly terminated?: { readonly exitCode: number } };
      }[];
    };
  }[];
}

/** A VirtualMachine of KubeVirt with a vhost-user interface `net1`, and the guest in it. */
export class KubeVirtVm {
  readonly name: string;
  readonly #rig: KubeVirtRig;
  readonly #networks: VmNetworks;
  readonly #fixed: string | undefined;
  #address = "";
  #guest: Guest | undefined;
  #console: Server | undefined;

  /** @param address that the guest sets on `net1`, with prefix; left out, it asks by DHCP */
  constructor(rig: KubeVirtRig, name: string, networks: VmNetworks, address?: string) {
    this.#rig = rig;
    this.name = name;
    this.#networks = networks;
    this.#fixed = address;
  }

  /** Of the guest's interface `net1`, without prefix. */
  get address(): string {
    return this.#address.split("/")[0] ?? "";
  }

  /** Creates it, and waits until the guest has its address. */
  async start(): Promise<void> {
    await apply(this.#rig.cluster, vmManifest(this.name, this.#networks));
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

  /** By `virtctl stop` and `virtctl start`; no pod of it is left between them. */
  async stopAndStart(): Promise<void> {
    await this.#rig.virtctl(`stop ${this.name}`);
    await this.#eventually("has stopped", async () => (await this.#pods()).length === 0);
    await this.#rig.virtctl(`start ${this.name}`);
    await this.untilGuestIsUp();
  }

  /**
   * By `virtctl migrate`, again if virt-launcher on the target crashed: KubeVirt 1.9 sometimes makes no network for a VM that comes
   * back to a node (docs/troubleshooting.md).
   * @throws Error with KubeVirt's reason where the migration fails
   */
  async migrate(): Promise<MigrationState & { readonly crashes: number }> {
    for (let crashes = 0; ; crashes += 1) {
      const { state, hasCrashed } = await this.#tryToMigrate();
      if (state.failed !== true) {
        await this.#eventually("runs on the target", async () => (await this.node()) === state.targetNode);
        // Its console is that of the source's QEMU.
        this.guest.console.close();
        return { ...state, crashes };
      }
      if (!hasCrashed || crashes === 2) throw new Error(`the migration failed: ${state.failureReason}`);
    }
  }

  /** How long the guest was paused in its last migration, as libvirt on the target says. */
  async downtimeMs(): Promise<number> {
    const report = await this.virsh(`domjobinfo ${VMS}_${this.name} --completed --keep-completed`);
    const found = /^Total downtime:\s+(\d+)\s+ms$/m.exec(report);
    if (found === null) throw new Error(`libvirt does not say the downtime: ${report}`);
    return Number(found[1]);
  }

  /** Waits until it runs and the guest has its address. */
  async untilGuestIsUp(): Promise<void> {
    await this.#eventually("runs", async () => (await this.vmi()).status?.phase === "Running");
    const socket = join(this.#rig.run.directory, `${this.name}.sock`);
    const command = `exec ${this.#rig.virtctlPath} --namespace ${VMS} console ${this.name}`;
    this.#console ??= await serveConsole(socket, this.#rig.cluster.shell(command));
    this.#guest?.console.close();
    this.#guest = new Guest(this.name, socket);
    await this.#guest.waitForBoot({ limitMs: LIMIT_MS });
    this.#address = this.#fixed ?? (await this.askByDhcp());
    if (this.#fixed !== undefined) await this.#guest.setAddress(await this.mac(), this.#fixed);
  }

  /** Has the guest ask on `net1`, and gives the address with its prefix. */
  async askByDhcp(): Promise<string> {
    const [address = ""] = (await this.guest.askByDhcp(await this.mac())).split(" ");
    return address;
  }

  async vmi(): Promise<Vmi> {
    return JSON.parse(await this.#rig.kubectl(`-n ${VMS} get vmi ${this.name} --output json`)) as Vmi;
  }

  async node(): Promise<string> {
    return (await this.vmi()).status?.nodeName ?? "";
  }

  /** Names of the interfaces that KubeVirt reports. */
  async interfaces(): Promise<readonly (string | undefined)[]> {
    return (await this.vmi()).status?.interfaces?.map(({ name }) => name) ?? [];
  }

  /** Adds an interface to it as it runs, waits until KubeVirt has read that, and gives what kubectl said. */
  async addInterface(name: string, networkName: string): Promise<string> {
    const operation = (list: string, value: object) => ({
      ...{ op: "add", path: `/spec/template/spec/${list}/-`, value },
    });
    const patch = JSON.stringify([
      operation("domain/devices/interfaces", { name, binding: { name: "vhostuser" } }),
      operation("networks", { name, multus: { networkName } }),
    ]);
    const vm = `-n ${VMS} patch vm ${this.name} --type=json`;
    const said = await this.#rig.kubectl(`${vm} --patch '${patch}' 2>&1`);
    await this.#eventually("is read", async () => {
      const path = "{.metadata.generation} {.status.desiredGeneration}";
      const generations = await this.#rig.kubectl(
        `-n ${VMS} get vm ${this.name} --output jsonpath='${path}'`,
      );
      const [wanted, read] = generations.split(" ");
      return wanted === read;
    });
    return said;
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

  /** Runs virsh beside its QEMU, and gives what it prints. */
  async virsh(command: string): Promise<string> {
    const pod = (await this.#pods()).at(-1) ?? "";
    const exec = `-n ${VMS} exec ${pod} --container compute`;
    return await this.#rig.kubectl(`${exec} -- virsh --connect '${LIBVIRT}' ${command}`);
  }

  /** Deletes it, and waits until no pod of it is left. */
  async delete(): Promise<void> {
    this.close();
    await this.#rig.kubectl(`-n ${VMS} delete vm ${this.name} --timeout=5m`);
    await this.#eventually("is gone", async () => (await this.#pods()).length === 0);
  }

  close(): void {
    this.#guest?.console.close();
    this.#console?.close();
    this.#console = undefined;
  }

  /** Its pods, the newest last. */
  async #pods(): Promise<readonly string[]> {
    const pods = `-n ${VMS} get pods --selector vm.kubevirt.io/name=${this.name}`;
    const names = await this.#rig.kubectl(`${pods} --sort-by=.metadata.creationTimestamp --output name`);
    return names.split("\n").filter((name) => name !== "");
  }

  async #tryToMigrate(): Promise<{ readonly state: MigrationState; readonly hasCrashed: boolean }> {
    const last = (await this.vmi()).status?.migrationState?.migrationUid;
    await this.#rig.virtctl(`migrate ${this.name}`);
    let state: MigrationState = {};
    let hasCrashed = false;
    await this.#eventually("has migrated", async () => {
      for (const pod of await this.#crashedPods()) {
        hasCrashed = true;
        await this.#rig.kubectl(`-n ${VMS} delete pod ${pod}`);
      }
      state = (await this.vmi()).status?.migrationState ?? {};
      return state.migrationUid !== last && (state.completed === true || state.failed === true);
    });
    return { state, hasCrashed };
  }

  /** Names of its pods whose virt-launcher has crashed. */
  async #crashedPods(): Promise<readonly string[]> {
    const pods = `-n ${VMS} get pods --selector vm.kubevirt.io/name=${this.name} --output json`;
    const { items } = JSON.parse(await this.#rig.kubectl(pods)) as Pods;
    return items
      .filter(({ status }) =>
        status.containerStatuses?.some(
          ({ name, state }) => name === "compute" && (state.terminated?.exitCode ?? 0) !== 0,
        ),
      )
      .map(({ metadata }) => metadata.name);
  }

  #eventually(what: string, poll: () => Promise<boolean>): Promise<unknown> {
    const options = { what: `VM ${this.name} ${what}`, limitMs: LIMIT_MS, everyMs: 500 };
    return waitUntil(() => poll().catch(() => false), options);
  }
}
