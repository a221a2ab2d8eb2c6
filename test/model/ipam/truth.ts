import type { Machine } from "../machine.ts";

/** The attachment of a pod to a network, of one sandbox. */
export interface Sandbox {
  readonly containerId: string;
  readonly interfaceName: string;
  readonly netns: string;
  readonly network: string;
  readonly space: string;
  readonly pod: { readonly uid: string; readonly name: string; readonly namespace: string };
  readonly node: string;
  /** What its ADD answered, without prefix lengths; undefined until then. */
  addresses: readonly string[] | undefined;
  /** The same as its ADD answered them. */
  ips: readonly object[];
  /** Its end: from here on nothing of it uses an address. */
  isOver: boolean;
  /** By the machine's monotonic clock. */
  netnsGoneAtMs: number | undefined;
  /** Its node's journal was lost or damaged while it ran. */
  isForgotten: boolean;
  /** A DEL of it, or a GC that does not name it, has reached an agent. */
  isReleased: boolean;
}

interface End {
  readonly machine: Machine;
  readonly boot: number;
  readonly monotonicMs: number;
  readonly atMs: number;
}

/** What running sandboxes were given, on all nodes, and when others gave it up. */
export class Truth {
  /** By space and address. */
  readonly #owners = new Map<string, Sandbox>();
  readonly #ends = new Map<string, End>();

  /** The running sandbox that has an address. */
  ownerOf(space: string, address: string): Sandbox | undefined {
    return this.#owners.get(`${space}|${address}`);
  }

  endOf(space: string, address: string): End | undefined {
    return this.#ends.get(`${space}|${address}`);
  }

  /** Running sandboxes with an address. */
  get running(): ReadonlySet<Sandbox> {
    return new Set(this.#owners.values());
  }

  given(sandbox: Sandbox, addresses: readonly string[]): void {
    sandbox.addresses = addresses;
    for (const address of addresses) this.#owners.set(`${sandbox.space}|${address}`, sandbox);
  }

  /** A sandbox ends: by its runtime's decision, or with its machine. */
  over(sandbox: Sandbox, machine: Machine): void {
    if (sandbox.isOver) return;
    sandbox.isOver = true;
    for (const address of sandbox.addresses ?? []) {
      const key = `${sandbox.space}|${address}`;
      if (this.#owners.get(key) !== sandbox) continue;
      this.#owners.delete(key);
      const { boots: boot, monotonicMs, simulation } = machine;
      this.#ends.set(key, { machine, boot, monotonicMs, atMs: simulation.nowMs });
    }
  }
}
