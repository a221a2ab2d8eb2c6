import type { Answer } from "../../cni/answer.ts";
import type { RawRequest } from "../../cni/request.ts";
import { parseCniArgs } from "../../names/cni-args.ts";
import { interfaceInSandbox, type PortRecord } from "../../records/port-record.ts";
import type { NodeEvent, Regarding } from "./event.ts";

/** Where node events come from and go to. */
export interface NodeEventsOptions {
  /** Name of the node. */
  readonly node: string;
  readonly ports: { list(): readonly PortRecord[] };
  readonly post: (event: NodeEvent) => void;
  /** Milliseconds for which each port's guest has not run its queues, by port; undefined while no switch answers. */
  readonly downFor: () => ReadonlyMap<string, number> | undefined;
  /** Names of ports that the reconciler could not create, repair or remove when it last tried. */
  readonly unsettled: () => ReadonlySet<string>;
  /** Pools, and whether kubelet may give out their devices. */
  readonly pools: () => readonly { readonly name: string; readonly isHealthy: boolean }[];
}

/** A guest that boots is not down. */
const LINK_DOWN_MS = 5 * 60_000;
/** Failures that the runtime's next try repairs. */
const TRANSIENT: ReadonlySet<string> = new Set(["busy", "superseded"]);

/** Turns what happens on a node into events about its pods and the node. Takes no time, never throws. */
export class NodeEvents {
  readonly #options: NodeEventsOptions;
  // A daemon that has just started has not reached its switch yet, so one pass is not enough.
  readonly #unsettled = new Streaks(2);
  readonly #unhealthy = new Streaks(2);
  readonly #down = new Streaks(1);

  constructor(options: NodeEventsOptions) {
    this.#options = options;
  }

  /** The container runtime got an answer: an interface was attached, or could not be. */
  answered({ env }: Pick<RawRequest, "env">, { failure, ignoredKeys = [] }: Answer): void {
    const { CNI_COMMAND: verb, CNI_IFNAME: subject = "", CNI_CONTAINERID: container, CNI_ARGS = "" } = env;
    if (verb !== "ADD") return;
    const args = parseCniArgs(CNI_ARGS);
    const { K8S_POD_NAME: name = "", K8S_POD_NAMESPACE: namespace = "", K8S_POD_UID: uid = "" } = args;
    const regarding: Regarding = { kind: "Pod", namespace, name, uid };
    const post = (reason: NodeEvent["reason"], note: string) => {
      if (name !== "" && namespace !== "")
        this.#options.post({ regarding, reason, action: "Attach", note, subject });
    };
    if (ignoredKeys.length > 0) {
      post(
        "NetworkKeysIgnored",
        `The network of interface ${subject} has unknown keys, which are ignored: ${ignoredKeys.join(", ")}`,
      );
    }
    if (failure !== undefined) {
      if (!TRANSIENT.has(failure.code))
        post("InterfaceFailed", `Interface ${subject} cannot be attached: ${failure.code}: ${failure.what}`);
      return;
    }
    const record = this.#options.ports
      .list()
      .find((port) => port.containerId === container && interfaceInSandbox(port) === subject);
    if (record === undefined) return;
    const { network, portName, bridge } = record;
    post(
      "InterfaceAttached",
      `Interface ${subject} is attached to network ${network} as port ${portName} of bridge ${bridge}`,
    );
  }

  /** The reconciler repaired a port that was not as attached. */
  restored(record: PortRecord, changes: readonly string[]): void {
    const { interfaceName, network } = record;
    const note = `Interface ${interfaceName} of network ${network} had changed and was repaired: ${changes.join("; ")}`;
    this.#post(record, "InterfaceRepaired", "Repair", note);
  }

  /** To be called after each pass of the reconciler, so that what the next pass repairs is not reported. */
  passEnded(): void {
    this.#checkPorts();
    this.#checkLinks();
    this.#checkPools();
  }

  #checkPorts(): void {
    const { node, unsettled, pools } = this.#options;
    const failing = unsettled();
    // While its switch is away no port can be repaired, and one event about the node says so.
    const away = new Set(pools().flatMap(({ name, isHealthy }) => (isHealthy ? [] : [name])));
    const ports = this.#attached(({ portName, pool }) => failing.has(portName) && !away.has(pool));
    for (const port of this.#unsettled.update([...ports.keys()]).begun) {
      const record = ports.get(port);
      if (record === undefined) continue;
      const note = `Interface ${record.interfaceName} of network ${record.network} is not as attached, and port ${port} cannot be repaired; the daemon's log on node ${node} says why`;
      this.#post(record, "InterfaceNotRepaired", "Repair", note);
    }
  }

  #checkLinks(): void {
    const downFor = this.#options.downFor();
    if (downFor === undefined) return;
    const ports = this.#attached(({ portName }) => (downFor.get(portName) ?? 0) >= LINK_DOWN_MS);
    for (const port of this.#down.update([...ports.keys()]).begun) {
      const record = ports.get(port);
      if (record === undefined) continue;
      const minutes = Math.round((downFor.get(port) ?? 0) / 60_000);
      const note = `The guest of interface ${record.interfaceName} has not run its queues for ${minutes} minutes: its driver is not up, or QEMU or the DPDK program did not connect to the socket`;
      this.#post(record, "InterfaceLinkDown", "Watch", note);
    }
  }

  #checkPools(): void {
    const { node: name, pools, post } = this.#options;
    const unhealthy = pools().flatMap((pool) => (pool.isHealthy ? [] : [pool.name]));
    const { begun, ended } = this.#unhealthy.update(unhealthy);
    const about = { regarding: { kind: "Node", name }, action: "Probe" } as const;
    for (const subject of ended) {
      const note = `The switch of vhost-user pool ${subject} is ready again`;
      post({ ...about, reason: "SwitchReady", note, subject });
    }
    for (const subject of begun) {
      const note = `The switch of vhost-user pool ${subject} is unreachable or misconfigured, new pods get no device of it; vhostuserctl doctor says why`;
      post({ ...about, reason: "SwitchUnreachable", note, subject });
    }
  }

  #attached(passes: (record: PortRecord) => boolean): ReadonlyMap<string, PortRecord> {
    const records = this.#options.ports.list().filter((one) => one.state === "attached" && passes(one));
    return new Map(records.map((record) => [record.portName, record]));
  }

  #post(record: PortRecord, reason: NodeEvent["reason"], action: string, note: string): void {
    const { podNamespace: namespace, podName: name, podUid: uid, interfaceName: subject } = record;
    this.#options.post({
      regarding: { kind: "Pod", namespace, name, uid },
      reason,
      action,
      note,
      subject,
    });
  }
}

/** What has been so for a number of updates in a row. */
class Streaks {
  readonly #length: number;
  readonly #counts = new Map<string, number>();

  constructor(length: number) {
    this.#length = length;
  }

  /** @returns what has just become so for long enough, and of that what is not so any more */
  update(keys: readonly string[]): { readonly begun: readonly string[]; readonly ended: readonly string[] } {
    const known = [...this.#counts];
    const gone = known.filter(([key]) => !keys.includes(key));
    for (const [key] of gone) this.#counts.delete(key);
    for (const key of keys) this.#counts.set(key, (this.#counts.get(key) ?? 0) + 1);
    return {
      begun: keys.filter((key) => this.#counts.get(key) === this.#length),
      ended: gone.flatMap(([key, count]) => (count >= this.#length ? [key] : [])),
    };
  }
}
