import type { InterfacePlan } from "../../../src/cni-dra/interface-record.ts";
import type { DriverNode, Sandbox } from "./driver-node.ts";

interface Container {
  /** Whether it names the claims, and so mounts what they make. */
  readonly namesClaims: boolean;
  isRunning: boolean;
  /** It cannot be without the interfaces. */
  isSure: boolean;
}

/** A pod with claims, as kubelet and the runtime lead it from its start to its end. */
export class PodLife {
  readonly uid: string;
  readonly containers: readonly Container[];
  readonly plans: readonly InterfacePlan[];
  sandbox: Sandbox | undefined;
  /** Its pause process has died. */
  isSandboxDead = false;
  isPrepared = false;
  isDeleted = false;
  isOver = false;
  readonly #node: DriverNode;
  /** Sandboxes before this one, which kubelet removes later. */
  readonly #older: Sandbox[] = [];
  #attempt = 0;

  /** @param value what kind of pod it is */
  constructor(node: DriverNode, number: number, value: number) {
    this.#node = node;
    this.uid = `pod-${number}`;
    const pod = { namespace: "ns", name: this.uid, uid: this.uid };
    this.containers = [value % 3 === 0, value % 4 !== 0].map((namesClaims) => ({
      namesClaims,
      isRunning: false,
      isSure: false,
    }));
    this.plans = Array.from({ length: 1 + (value % 3) }, (_, index) => {
      const uid = `${this.uid}-claim-${index >> 1}`;
      return {
        ...{
          claim: { namespace: "ns", name: uid, uid },
          pod,
          request: `r${index}`,
          pool: "n",
          device: "cni",
        },
        ifName: `net${index}`,
        network: {
          cniVersion: "1.0.0",
          name: `network-${index}`,
          plugins: [{ type: "main" }, { type: "tuning" }],
        },
      };
    });
    void this.#live();
  }

  /** The interfaces that are missing in its sandbox. */
  get missing(): readonly string[] {
    const { pod } = this.sandbox ?? {};
    return this.plans
      .map(({ ifName }) => ifName)
      .filter((ifName) => pod === undefined || !this.#node.world.has(pod.id, ifName));
  }

  end(): void {
    this.isDeleted = true;
  }

  killSandbox(): void {
    this.isSandboxDead = true;
    this.#endContainers();
  }

  endContainer(index: number): void {
    const container = this.containers[index];
    if (container !== undefined) container.isRunning = false;
  }

  /** kubelet has restarted, and prepares claims again. */
  forgetPrepare(): void {
    this.isPrepared = false;
  }

  /** After a reboot. */
  lose(): void {
    this.sandbox = undefined;
    this.#older.length = 0;
    this.isPrepared = false;
    this.#endContainers();
  }

  #endContainers(): void {
    for (const container of this.containers) container.isRunning = false;
  }

  async #live(): Promise<void> {
    const node = this.#node;
    while (!this.isDeleted) {
      if (node.machine.isOn) {
        if (!this.isPrepared) this.isPrepared = await this.#prepare();
        if (this.isPrepared && this.sandbox !== undefined && this.isSandboxDead) await this.#endSandbox();
        if (this.isPrepared && this.sandbox === undefined) await this.#startSandbox();
        if (this.sandbox !== undefined && !this.isSandboxDead) await this.#startContainers(this.sandbox);
      }
      await node.sleep(node.simulation.between(500, 5_000));
    }
    while (this.sandbox !== undefined) {
      await this.#endSandbox();
      await node.sleep(500);
    }
    for (const uid of new Set(this.plans.map(({ claim }) => claim.uid)))
      while (!(await node.ask((interfaces) => interfaces.unprepare(uid)))) await node.sleep(2_000);
    for (const sandbox of this.#older) await node.remove(sandbox);
    this.isOver = true;
  }

  /** Fails where the driver is away or does not hear of sandboxes. */
  async #prepare(): Promise<boolean> {
    const node = this.#node;
    for (const plans of Map.groupBy(this.plans, ({ claim }) => claim.uid).values()) {
      if (!node.isSynchronized) return false;
      if (!(await node.ask((interfaces) => interfaces.prepare(plans)))) return false;
    }
    return true;
  }

  async #startSandbox(): Promise<void> {
    this.#attempt += 1;
    const id = `${this.uid}-${this.#attempt}`;
    const pod = { id, name: this.uid, namespace: "ns", uid: this.uid, netns: `/run/netns/${id}` };
    const sandbox: Sandbox = { pod, isCreated: false, isKnown: true };
    this.isSandboxDead = false;
    if (await this.#node.run(sandbox)) this.sandbox = sandbox;
  }

  async #startContainers(sandbox: Sandbox): Promise<void> {
    const node = this.#node;
    for (const container of this.containers) {
      if (container.isRunning || this.sandbox !== sandbox || this.isDeleted) continue;
      const answer = await node.call("createContainer", sandbox);
      const isHere = this.sandbox === sandbox && !this.isSandboxDead;
      if (answer === "failed" || !isHere) return;
      const canMount = this.plans.every(({ claim, request }) => node.canMount(claim.uid, request));
      // kubelet tries again.
      if (container.namesClaims && !canMount) return;
      container.isRunning = true;
      container.isSure = container.namesClaims || answer === "ok";
      node.note(`a container of ${sandbox.pod.id} runs`);
      if (container.isSure && this.missing.length > 0)
        node.world.violate(`a container of ${sandbox.pod.id} runs without ${this.missing}`);
    }
  }

  async #endSandbox(): Promise<void> {
    const { sandbox } = this;
    if (sandbox === undefined) return;
    this.#endContainers();
    if (!(await this.#node.stop(sandbox)) || this.sandbox !== sandbox) return;
    this.sandbox = undefined;
    if (this.#node.simulation.percent(50)) await this.#node.remove(sandbox);
    else this.#older.push(sandbox);
  }
}
