import { existsSync, mkdirSync, readlinkSync, rmSync } from "node:fs";
import { join } from "node:path";
import {
  type InterfaceRecord,
  interfaceKey,
  interfaceRecordKind,
} from "../../../src/cni-dra/interface-record.ts";
import { Interfaces } from "../../../src/cni-dra/interfaces.ts";
import { silentLogger } from "../../../src/logging/logger.ts";
import type { PodSandbox } from "../../../src/protocols/nri/messages.ts";
import { RecordStore } from "../../../src/records/record-store.ts";
import { KeyedMutex } from "../../../src/sync/keyed-mutex.ts";
import { Machine, type Program } from "../machine.ts";
import { Simulation } from "../simulation.ts";
import { PluginWorld } from "./plugin-world.ts";

const STATE = "/var/lib/cni-dra";
/** When a hook is answered at the latest. */
const HOOK_MS = 1_700;
const RECONNECT_MS = 500;

/** A sandbox as the runtime has it. */
export interface Sandbox {
  readonly pod: PodSandbox;
  /** Its start is over. */
  isCreated: boolean;
  /** Whether plugins hear of its end. */
  isKnown: boolean;
}

export type Hook = "runPodSandbox" | "createContainer" | "stopPodSandbox" | "removePodSandbox";

/** A node: the driver's process, the container runtime that calls it, and what a test may break. */
export class DriverNode {
  readonly simulation: Simulation;
  readonly machine: Machine;
  readonly world: PluginWorld;
  readonly kind: "containerd" | "cri-o";
  readonly sandboxes = new Map<string, Sandbox>();
  readonly lines: string[] = [];
  /** Defects that the model must find. */
  readonly defects = { writesAfterAdd: false, asksOnce: false, trustsFiles: false };
  interfaces: Interfaces | undefined;
  records: RecordStore<InterfaceRecord> | undefined;
  /** kubelet gives it claims. */
  isSynchronized = false;
  /** The runtime calls it. */
  #isConnected = false;
  #program: Program | undefined;
  #connection = 0;
  readonly #directory: string;
  readonly #locks = new KeyedMutex();
  readonly #starting = new Set<Promise<unknown>>();
  /** Ends calls whose driver is gone. */
  readonly #waiting = new Set<() => void>();

  /** @param directory an empty one, for files of readiness */
  constructor(seed: number, kind: "containerd" | "cri-o", directory: string) {
    this.simulation = new Simulation(seed);
    this.machine = new Machine("node", this.simulation);
    this.world = new PluginWorld(this.simulation);
    this.kind = kind;
    this.#directory = directory;
    mkdirSync(directory, { recursive: true });
  }

  note(line: string): void {
    this.lines.push(`${Math.round(this.simulation.nowMs)} ${line}`);
  }

  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => this.simulation.after(ms, () => resolve()));
  }

  /** The driver's process. */
  async start(): Promise<void> {
    if (!this.machine.isOn || this.#program?.isAlive) return;
    const program = this.machine.run();
    this.#program = program;
    const { world } = this;
    const records = await RecordStore.open(`${program.root}${STATE}`, interfaceRecordKind, silentLogger);
    this.records = records;
    const isAdding = ({ attachments }: InterfaceRecord) =>
      attachments.some(({ state }) => state === "adding");
    this.interfaces = new Interfaces({
      records: {
        get: (name) => records.get(name),
        list: () => records.list(),
        put: async (body) => {
          if (!(this.defects.writesAfterAdd && isAdding(body))) await records.put(body);
        },
        remove: (name, when) => records.remove(name, when),
      },
      places: { cdiDirectory: this.#directory, readyDirectory: this.#directory },
      delegate: world.delegateOf(program),
      hasNetns: (path) => new Promise((resolve) => program.after(0.1, () => resolve(world.netns.has(path)))),
      ...{ report: () => undefined, reportDel: () => undefined },
      clock: program.clock,
      logger: silentLogger,
    });
    void this.interfaces.run(program.stop.signal);
    await this.#connect(program);
  }

  /** SIGKILL, now or at one of its next awaits. It starts again. */
  kill(afterEvents?: number): void {
    const ended = () => {
      this.note("the driver is killed");
      this.disconnect();
      this.interfaces = undefined;
      this.simulation.after(this.simulation.between(100, 8_000), () => void this.start());
    };
    const program = this.#program;
    if (program?.isAlive !== true) return;
    if (afterEvents !== undefined) program.killAfter(afterEvents, ended);
    else {
      program.kill();
      ended();
    }
  }

  /** The connection ends, with all calls. */
  disconnect(): void {
    this.#isConnected = false;
    this.isSynchronized = false;
    this.#connection += 1;
    for (const end of this.#waiting) end();
  }

  /** The runtime's process is killed, and another starts. */
  restartRuntime(): void {
    this.note("the runtime restarts");
    for (const sandbox of this.sandboxes.values()) sandbox.isKnown &&= this.kind === "cri-o";
    this.disconnect();
    const program = this.#program;
    if (program !== undefined) program.after(RECONNECT_MS, () => void this.#connect(program));
  }

  /** The node's power fails, and comes back. */
  reboot(): void {
    this.note("the node reboots");
    this.disconnect();
    this.interfaces = undefined;
    for (const path of [...this.world.netns]) this.world.removeNetns(path);
    this.sandboxes.clear();
    this.machine.powerOff();
    rmSync(this.#directory, { recursive: true });
    mkdirSync(this.#directory);
    this.simulation.after(5_000, () => {
      this.machine.powerOn();
      void this.start();
    });
  }

  /** CRI RunPodSandbox up to the hook. @returns whether the sandbox starts */
  async run(sandbox: Sandbox): Promise<boolean> {
    const started = this.#run(sandbox);
    this.#starting.add(started);
    return started.finally(() => this.#starting.delete(started));
  }

  /** CRI StopPodSandbox. @returns whether it is done */
  async stop(sandbox: Sandbox): Promise<boolean> {
    const { netns = "" } = sandbox.pod;
    if (this.kind === "cri-o") this.world.removeNetns(netns);
    const answer = sandbox.isKnown ? await this.call("stopPodSandbox", sandbox) : "away";
    if (this.kind === "cri-o") return answer !== "failed";
    this.world.removeNetns(netns);
    return true;
  }

  async remove(sandbox: Sandbox): Promise<void> {
    this.sandboxes.delete(sandbox.pod.id);
    if (sandbox.isKnown) await this.call("removePodSandbox", sandbox);
  }

  /** A call of the runtime, one at a time. */
  call(hook: Hook, { pod }: Sandbox): Promise<"ok" | "failed" | "away"> {
    return this.#locks.run({ key: "runtime", what: hook }, async () => {
      const { interfaces } = this;
      const program = this.#program;
      if (!this.#isConnected || interfaces === undefined || program === undefined) return "away";
      if (this.defects.asksOnce && hook === "createContainer") return "ok";
      const late = new Promise<"ok" | "failed">((resolve) =>
        program.after(HOOK_MS, () => resolve(hook === "runPodSandbox" ? "ok" : "failed")),
      );
      const work = interfaces[hook](pod).then(
        () => "ok" as const,
        () => "failed" as const,
      );
      const answer = await this.#unlessGone(Promise.race([work, late]), "away");
      this.note(`${hook} ${pod.id}: ${answer}`);
      return answer;
    });
  }

  /** Something that kubelet asks of the driver. @returns whether it succeeded */
  ask(work: (interfaces: Interfaces) => Promise<unknown>): Promise<boolean> {
    if (this.interfaces === undefined) return Promise.resolve(false);
    const done = work(this.interfaces).then(
      () => true,
      () => false,
    );
    return this.#unlessGone(done, false);
  }

  /** Whether what a container mounts of an interface is there. */
  canMount(claimUid: string, request: string): boolean {
    const path = join(
      this.#directory,
      interfaceKey({ claim: { namespace: "", name: "", uid: claimUid }, request }),
    );
    if (!existsSync(`${path}.json`)) return false;
    return this.defects.trustsFiles || this.world.netns.has(readlinkSync(`${path}.netns`));
  }

  async #run(sandbox: Sandbox): Promise<boolean> {
    const { id, netns = "" } = sandbox.pod;
    this.world.netns.add(netns);
    this.sandboxes.set(id, sandbox);
    const boot = this.machine.boots;
    await this.sleep(5);
    const answer = await this.call("runPodSandbox", sandbox);
    if (this.machine.boots !== boot || !this.machine.isOn) return false;
    sandbox.isCreated = true;
    if (answer !== "failed") return true;
    await this.call("stopPodSandbox", sandbox);
    await this.call("removePodSandbox", sandbox);
    this.world.removeNetns(netns);
    this.sandboxes.delete(id);
    return false;
  }

  /** Registers and synchronizes; containerd waits for sandboxes that are starting, CRI-O does not list them. */
  async #connect(program: Program): Promise<void> {
    this.#connection += 1;
    const connection = this.#connection;
    const isOver = () => !program.isAlive || connection !== this.#connection;
    if (this.kind === "containerd") await Promise.all(this.#starting);
    await this.#locks.run({ key: "runtime", what: "Synchronize" }, async () => {
      if (isOver()) return;
      const listed = [...this.sandboxes.values()].filter(
        ({ isCreated }) => isCreated || this.kind === "containerd",
      );
      const synchronized = this.interfaces?.synchronize(listed.map(({ pod }) => pod)).then(() => {
        if (!isOver()) this.isSynchronized = true;
      });
      const late = new Promise<void>((resolve) => program.after(HOOK_MS, () => resolve()));
      await this.#unlessGone(Promise.race([synchronized, late]), undefined);
      if (isOver()) return;
      this.note("the driver is synchronized");
      this.#isConnected = true;
    });
  }

  #unlessGone<Value>(work: Promise<Value>, otherwise: Value): Promise<Value> {
    const gone = Promise.withResolvers<Value>();
    const end = () => gone.resolve(otherwise);
    this.#waiting.add(end);
    return Promise.race([work, gone.promise]).finally(() => this.#waiting.delete(end));
  }
}
