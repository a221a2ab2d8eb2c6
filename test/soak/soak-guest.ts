import { setTimeout as delay } from "node:timers/promises";
import { describeThrown } from "../../src/failure/failure.ts";
import type { LivingPod } from "../churn/living-pod.ts";
import type { NetworkVariant } from "../churn/network-variants.ts";
import { smallVmi } from "../cluster/example-vm.ts";
import { VmPod } from "../cluster/vm-pod.ts";
import type { Guest } from "../guest/guest.ts";
import type { GuestImage } from "../guest/image.ts";
import type { LabRun } from "../machine/lab-run.ts";
import { guestNetwork, guestVariant } from "./guest-networks.ts";
import type { Site } from "./site.ts";

/** Emulated, on a busy machine. */
const BOOT_LIMIT_MS = 240_000;
const PING_LIMIT_MS = 120_000;
/** A start may fail for as long as something is wrong: switches are back within seconds. */
const START_LIMIT_MS = 300_000;

/** What a guest needs to be made. */
export interface SoakGuestOptions {
  readonly run: LabRun;
  readonly image: GuestImage;
  /** From 1. */
  readonly number: number;
  /** Whether nothing is disturbed: a start that begins then must succeed. */
  readonly isCalm: () => boolean;
}

/** When the sidecar's process is killed, seen from the calls of OnDefineDomain; or so long after the first one began. */
export type SidecarKill = "before" | { readonly withinMs: number } | "after";

/** A VM that lives as long as the soak, in one pod after the other. */
export class SoakGuest {
  readonly name: string;
  readonly address: string;
  readonly #options: SoakGuestOptions;
  readonly #mac: string;
  readonly #variant: NetworkVariant;
  #pods = 0;
  #site: Site | undefined;
  #pod: VmPod | undefined;
  #admittedAt = 0;
  /** The kernel's id of this boot: it stays the same unless the round ends the guest. */
  #boot = "";

  constructor(options: SoakGuestOptions) {
    this.#options = options;
    this.name = `vm${options.number}`;
    this.address = `10.1.0.${options.number}`;
    this.#variant = guestVariant(options.number);
    this.#mac = `02:00:00:00:02:${String(options.number).padStart(2, "0")}`;
  }

  /** The node that it runs on. */
  get site(): Site {
    if (this.#site === undefined) throw new Error(`${this.name} does not run`);
    return this.#site;
  }

  /** What runs in it. */
  get guest(): Guest {
    return this.#current().guest;
  }

  /** Its pod, as the model has pods. */
  living(): LivingPod {
    const pod = this.#current();
    const [device = ""] = pod.devices;
    const name = pod.interfaceName;
    return {
      name: pod.podName,
      uid: pod.uid,
      hostPath: pod.allocationDirectory,
      interfaces: [{ name, device, network: this.#variant }],
      admittedAt: this.#admittedAt,
      sandbox: { containerId: pod.containerId, attached: new Map([[name, {}]]) },
    };
  }

  /** Starts a pod of it on a node; where that fails because of a disturbance, another one. */
  async start(site: Site): Promise<void> {
    const end = performance.now() + START_LIMIT_MS;
    for (;;) {
      const isCalm = this.#options.isCalm();
      try {
        return await this.#startOnce(site);
      } catch (error) {
        this.#options.run.cleanup.signal.throwIfAborted();
        if (isCalm || performance.now() > end) throw error;
        this.#options.run.progress(`${this.name}: another pod, for ${describeThrown(error).slice(0, 300)}`);
        await delay(500);
      }
    }
  }

  async #startOnce(site: Site, kill?: SidecarKill): Promise<void> {
    const pod = this.#newPod(site);
    try {
      await this.#makeReady(pod);
      if (kill === "before") pod.sidecar.kill("SIGKILL");
      const defined = pod.define();
      if (typeof kill === "object") await killWithin(pod, defined, kill.withinMs);
      await defined;
      if (kill === "after") pod.sidecar.kill("SIGKILL");
      await pod.libvirt.start(pod.domainName);
      await pod.guest.waitForBoot({ limitMs: BOOT_LIMIT_MS });
      await pod.guest.setAddress(this.#mac, `${this.address}/24`);
      this.#boot = await bootOf(pod);
    } catch (error) {
      await this.#end(pod);
      throw error;
    }
    this.#become(site, pod);
  }

  /** The pod ends as a whole and another one comes, on this node or another. */
  async restart(site: Site): Promise<void> {
    await this.#end(this.#current());
    await this.start(site);
  }

  /** QEMU dies; virt-launcher sees it, the pod ends, another one comes. */
  async killQemu(site: Site): Promise<void> {
    const pod = this.#current();
    const pidFile = `/run/libvirt/qemu/${pod.domainName}.pid`;
    await pod.libvirt.container.run("sh", ["-c", `kill -KILL "$(cat ${pidFile})"`]);
    await this.restart(site);
  }

  /**
   * Restarts it with a sidecar that dies. Before the call the VM must not start; after it nothing depends on it; in the
   * middle of it either.
   */
  async restartKillingSidecar(site: Site, kill: SidecarKill): Promise<void> {
    await this.#end(this.#current());
    let failed = false;
    await this.#startOnce(site, kill).catch((error: unknown) => {
      if (kill === "after" && this.#options.isCalm()) throw error;
      failed = true;
    });
    if (!failed && kill === "before") throw new Error(`${this.name} started without its sidecar`);
    if (failed) await this.start(site);
  }

  /**
   * Live migration. One that fails while something is wrong leaves the guest where it was; QEMU ends itself where the
   * switch is down when it has to log the guest's memory, and then the guest is restarted.
   * @returns the outcome
   */
  async migrate(to: Site): Promise<string> {
    const source = this.#current();
    const isCalm = this.#options.isCalm();
    const target = this.#newPod(to);
    try {
      await this.#makeReady(target);
      await target.prepareAsTarget();
      await source.libvirt.migrate(source.domainName, target.libvirt);
    } catch (error) {
      this.#options.run.cleanup.signal.throwIfAborted();
      if (isCalm) throw error;
      const words = describeThrown(error).slice(-300);
      if ((await stateOf(source)) === "running") {
        await this.#end(target);
        return `not, for ${words}`;
      }
      if ((await stateOf(target)) !== "running") {
        await this.#end(target);
        await this.restart(this.site);
        return `not, and lost its QEMU, for ${words}`;
      }
    }
    this.#become(to, target);
    await this.#end(source);
    return `to ${to.node.name}`;
  }

  /** Waits until it answers, is the guest that it was, and reaches another one. */
  async check(peer: SoakGuest): Promise<void> {
    const pod = this.#current();
    const state = await stateOf(pod);
    if (state !== "running") throw new Error(`${this.name} on ${pod.node.name} is ${state}`);
    await pod.guest.waitForBoot({ limitMs: PING_LIMIT_MS });
    const boot = await bootOf(pod);
    if (boot !== this.#boot) throw new Error(`${this.name} was restarted, and not by the round`);
    await pod.guest.waitForPeer(peer.address, PING_LIMIT_MS);
  }

  #newPod(site: Site): VmPod {
    const { run, image } = this.#options;
    const name = `${this.name}-${this.#pods++}`;
    const vmi = smallVmi({ name: this.name, mac: this.#mac });
    return new VmPod({ run, node: site.node, name, vmi, network: guestNetwork(this.#variant), image });
  }

  async #makeReady(pod: VmPod): Promise<void> {
    await pod.allocate();
    this.#admittedAt = Date.now();
    await pod.attach();
    await pod.launch();
  }

  /** Ends what was started: a start may have failed anywhere. DEL must succeed in any disturbance. */
  async #end(pod: VmPod): Promise<void> {
    // A sidecar that was killed does not answer to its shutdown.
    await pod.stop().catch(() => undefined);
    await pod.detach();
    if (pod.uid !== "") pod.remove();
  }

  #become(site: Site, pod: VmPod): void {
    this.#site = site;
    this.#pod = pod;
  }

  #current(): VmPod {
    if (this.#pod === undefined) throw new Error(`${this.name} does not run`);
    return this.#pod;
  }
}

async function killWithin(pod: VmPod, defined: Promise<unknown>, ms: number): Promise<void> {
  const over = defined.catch(() => undefined);
  await Promise.race([over, delay(ms)]);
  pod.sidecar.kill("SIGKILL");
}

async function bootOf(pod: VmPod): Promise<string> {
  return (await pod.guest.run("cat /proc/sys/kernel/random/boot_id", { limitMs: 60_000 })).trim();
}

async function stateOf(pod: VmPod): Promise<string> {
  return pod.libvirt.state(pod.domainName).catch((error: unknown) => describeThrown(error));
}
