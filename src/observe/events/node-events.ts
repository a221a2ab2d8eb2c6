import { parseCniArgs } from "../../names/cni-args.ts";
import { type PortRecord, portRecordName } from "../../records/port-record.ts";
import type { NodeEvent, Regarding } from "./event.ts";

/** Where node events come from and go to. */
export interface NodeEventsOptions {
  /** Name of the node. */
  readonly node: string;
  readonly ports: { list(): readonly PortRecord[]; get(name: string): PortRecord | undefined };
  readonly post: (event: NodeEvent) => void;
  /** Milliseconds for which each port's guest has not run its queues, by port; undefined where nobody can tell. */
  readonly downFor: () => ReadonlyMap<string, number> | undefined;
  /** Names of ports that the reconciler could not make, mend or remove when it last tried. */
  readonly unsettled: () => ReadonlySet<string>;
  /** Pools, and whether kubelet may give out their devices. */
  readonly pools: () => readonly { readonly name: string; readonly isHealthy: boolean }[];
}

/** The part of a CNI request that events are made of. */
export interface CniRequest {
  readonly env: Readonly<Record<string, string>>;
}

/** The part of a CNI answer that events are made of. */
export interface CniAnswer {
  readonly exitCode: number;
  /** What the plugin prints: of a failure, a JSON object with `msg`. */
  readonly stdout: string;
  readonly failure?: string;
}

/** A guest that boots is not down. */
const LINK_DOWN_MS = 5 * 60_000;
/** Looks in a row at which something must be so: a daemon that has just started has not heard of its switch yet. */
const LASTING_LOOKS = 2;
/** Failures that the runtime's next try makes good: no news for the pod's owner. */
const PASSING: ReadonlySet<string> = new Set(["busy", "called-off"]);

/** Turns what happens on a node into events about the pods and the node concerned. Takes no time, never throws. */
export class NodeEvents {
  readonly #options: NodeEventsOptions;
  /** Looks in a row at which a port could not be mended. */
  readonly #unsettled = new Map<string, number>();
  /** Ports of which was said that they are down. */
  readonly #down = new Set<string>();
  /** Looks in a row at which a pool was not healthy. */
  readonly #sick = new Map<string, number>();

  constructor(options: NodeEventsOptions) {
    this.#options = options;
  }

  /** Wraps what answers the container runtime: interfaces that were attached, or could not be. */
  cni<Request extends CniRequest, Answer extends CniAnswer>(
    answer: (request: Request, signal: AbortSignal) => Promise<Answer>,
  ): (request: Request, signal: AbortSignal) => Promise<Answer> {
    return async (request, signal) => {
      const answered = await answer(request, signal);
      if (request.env["CNI_COMMAND"] === "ADD") this.#added(request, answered);
      return answered;
    };
  }

  /** A port of ours was not as it should be, and is now. */
  restored(record: PortRecord, changes: readonly string[]): void {
    this.#post(record, {
      ...{ type: "Normal", reason: "InterfaceRepaired", action: "Repair" },
      note: `Interface ${record.interfaceName} of network ${record.network} was not as attached, and is again: ${changes.join("; ")}`,
    });
  }

  /**
   * Looks at what lasts: ports that cannot be mended, links that stay down, switches that went away or came back. To be
   * called after each pass of the reconciler: what the next pass mends is no news.
   */
  look(): void {
    this.#lookAtPorts();
    this.#lookAtLinks();
    this.#lookAtPools();
  }

  #added({ env }: CniRequest, { exitCode, stdout, failure = "" }: CniAnswer): void {
    const interfaceName = env["CNI_IFNAME"] ?? "";
    if (exitCode === 0) {
      const record = this.#options.ports.get(portRecordName(env["CNI_CONTAINERID"] ?? "", interfaceName));
      if (record === undefined) return;
      this.#post(record, {
        ...{ type: "Normal", reason: "InterfaceAttached", action: "Attach" },
        note: `Interface ${interfaceName} is attached to network ${record.network} as port ${record.portName} of bridge ${record.bridge}`,
      });
      return;
    }
    const regarding = podOf(env["CNI_ARGS"] ?? "");
    if (regarding === undefined || PASSING.has(failure)) return;
    this.#options.post({
      ...{ regarding, type: "Warning", reason: "InterfaceFailed", action: "Attach", subject: interfaceName },
      note: `Interface ${interfaceName} cannot be attached (${failure}): ${messageOf(stdout)}`,
    });
  }

  #lookAtPorts(): void {
    const { node, ports, unsettled, pools } = this.#options;
    const failing = unsettled();
    for (const port of this.#unsettled.keys()) if (!failing.has(port)) this.#unsettled.delete(port);
    if (failing.size === 0) return;
    // With its switch away no port can be mended, and one event about the node says so.
    const away = new Set(pools().flatMap(({ name, isHealthy }) => (isHealthy ? [] : [name])));
    for (const record of ports.list()) {
      const { portName, interfaceName, network, pool, state } = record;
      if (state !== "attached" || !failing.has(portName) || away.has(pool)) continue;
      const looks = (this.#unsettled.get(portName) ?? 0) + 1;
      this.#unsettled.set(portName, looks);
      if (looks !== LASTING_LOOKS) continue;
      this.#post(record, {
        ...{ type: "Warning", reason: "InterfaceNotRepaired", action: "Repair" },
        note: `Interface ${interfaceName} of network ${network} is not as attached, and its port ${portName} cannot be mended now; the daemon's log on node ${node} says why`,
      });
    }
  }

  #lookAtLinks(): void {
    const downFor = this.#options.downFor();
    if (downFor === undefined) return;
    for (const port of this.#down) if (!downFor.has(port)) this.#down.delete(port);
    for (const record of this.#options.ports.list()) {
      const { portName, interfaceName } = record;
      const forMs = downFor.get(portName) ?? 0;
      if (record.state !== "attached" || forMs < LINK_DOWN_MS || this.#down.has(portName)) continue;
      this.#down.add(portName);
      this.#post(record, {
        ...{ type: "Warning", reason: "InterfaceLinkDown", action: "Watch" },
        note: `Nobody has run the queues of interface ${interfaceName} for ${Math.round(forMs / 60_000)} minutes: the guest's driver is not up, or QEMU or the DPDK program did not connect to its socket`,
      });
    }
  }

  #lookAtPools(): void {
    const { node, pools, post } = this.#options;
    const regarding: Regarding = { kind: "Node", name: node };
    for (const { name: pool, isHealthy } of pools()) {
      const looks = this.#sick.get(pool) ?? 0;
      if (isHealthy) {
        this.#sick.delete(pool);
        if (looks < LASTING_LOOKS) continue;
        post({
          ...{ regarding, type: "Normal", reason: "SwitchReady", action: "Probe", subject: pool },
          note: `The switch of vhost-user pool ${pool} takes ports again`,
        });
        continue;
      }
      this.#sick.set(pool, looks + 1);
      if (looks + 1 !== LASTING_LOOKS) continue;
      post({
        ...{ regarding, type: "Warning", reason: "SwitchUnreachable", action: "Probe", subject: pool },
        note: `The switch of vhost-user pool ${pool} is not fit for ports: new pods get no device of it; vhostuserctl doctor says why`,
      });
    }
  }

  #post(record: PortRecord, event: Pick<NodeEvent, "type" | "reason" | "action" | "note">): void {
    const { podNamespace: namespace, podName: name, podUid: uid, interfaceName: subject } = record;
    this.#options.post({ ...event, regarding: { kind: "Pod", namespace, name, uid }, subject });
  }
}

/** The pod that a runtime names; undefined where it names none. */
function podOf(cniArgs: string): Regarding | undefined {
  const args = parseCniArgs(cniArgs);
  const { K8S_POD_NAME: name = "", K8S_POD_NAMESPACE: namespace = "", K8S_POD_UID: uid = "" } = args;
  return name === "" || namespace === "" ? undefined : { kind: "Pod", namespace, name, uid };
}

function messageOf(stdout: string): string {
  try {
    const { msg } = JSON.parse(stdout) as { readonly msg?: unknown };
    return String(msg);
  } catch {
    return "no reason given";
  }
}
