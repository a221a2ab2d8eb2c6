// whereabouts v0.9.4, as its executable works on the API server: one request at a time, with its retries, its limit of time,
// and its habit of taking an address by the reservation alone when the IPPool could not be written.
import { formatAddress, parseAddress, parsePrefix } from "../../../src/addresses/address.ts";
import { rangeOf } from "../../../src/addresses/subnet.ts";
import { type Json, type ObjectStore, Refusal, type Stored } from "../api-server/object-store.ts";

/** An interface of a pod's sandbox. */
export interface WhereaboutsCall {
  /** `namespace/name`. */
  readonly pod: string;
  readonly container: string;
  readonly ifname?: string;
}

/** What a request meets. */
export type Fate = "answered" | "server error";

interface Entry extends Json {
  readonly id: string;
  readonly podref: string;
  readonly ifname?: string;
}

const NAMESPACE = "kube-system";
const POOLS = `${NAMESPACE}/ippools`;
const RESERVATIONS = `${NAMESPACE}/overlappingrangeipreservations`;
const RETRIES = 100;
/** For all requests of a call, in milliseconds. */
const LIMIT_MS = 10_000;

/** whereabouts with one range. A call is a generator that stops before each request; one that is dropped was killed. */
export class StandInWhereabouts {
  readonly #store: ObjectStore;
  readonly #range: string;
  readonly #now: () => number;

  /** @param now milliseconds of a clock that only goes forward */
  constructor(store: ObjectStore, range: string, now: () => number = () => 0) {
    this.#store = store;
    this.#range = range;
    this.#now = now;
  }

  get name(): string {
    return this.#range.replaceAll(/[:/]/g, "-");
  }

  /** Offsets that have an entry, with its pod. */
  get entries(): Readonly<Record<string, string>> {
    const { allocations } = (this.#store.find(POOLS, this.name)?.["spec"] ?? {}) as { allocations?: Json };
    return Object.fromEntries(
      Object.entries(allocations ?? {}).map(([offset, entry]) => [offset, (entry as Entry).podref]),
    );
  }

  /** The network as a NetworkAttachmentDefinition. */
  get network(): Json {
    const config = { cniVersion: "1.0.0", name: "old", type: "macvlan", ipam: this.#ipam };
    return { metadata: { name: "old", namespace: "tenant" }, spec: { config: JSON.stringify(config) } };
  }

  get #ipam(): Json {
    return { type: "whereabouts", range: this.#range };
  }

  /** @returns the address; undefined where the ADD failed */
  *add(call: WhereaboutsCall): Generator<void, string | undefined, Fate> {
    const untilMs = this.#now() + LIMIT_MS;
    const { pod, container: id, ifname = "net1" } = call;
    const others = new Set<string>();
    let [address, isReserved] = ["", false];
    for (let attempt = 0; attempt < RETRIES; attempt++) {
      if ((yield) !== "answered" || this.#now() > untilMs) return undefined;
      const pool = this.#store.find(POOLS, this.name);
      if (pool === undefined) {
        this.#createPool();
        continue;
      }
      const entries = entriesOf(pool);
      const own = Object.entries(entries).find(([, one]) => one.podref === pod && one.ifname === ifname);
      const offset = own?.[0] ?? this.#firstFree(entries, others);
      if (offset === undefined) return undefined;
      address = this.#addressOf(offset);
      if ((yield) !== "answered" || this.#now() > untilMs) return undefined;
      const reservation = this.#store.find(RESERVATIONS, nameOf(address));
      isReserved = reservation !== undefined;
      if (reservation !== undefined && podOf(reservation) !== pod) {
        others.add(offset);
        continue;
      }
      const fate = yield;
      const allocations = { ...entries, [offset]: { id, podref: pod, ifname } };
      // A patch that fails its test is made again; after another failure it goes on to the reservation.
      if (fate === "answered" && this.#now() <= untilMs && !this.#write(pool, allocations)) continue;
      break;
    }
    if (isReserved) return address;
    if ((yield) !== "answered" || this.#now() > untilMs) return undefined;
    return this.#reserve(address, pod, ifname) ? address : undefined;
  }

  /** Frees what the sandbox has. */
  *del({ container, ifname = "net1" }: WhereaboutsCall): Generator<void, void, Fate> {
    for (let attempt = 0; attempt < RETRIES; attempt++) {
      if ((yield) !== "answered") return;
      const pool = this.#store.find(POOLS, this.name);
      const entries = entriesOf(pool);
      const [offset] = Object.entries(entries).find(isOf(container, ifname)) ?? [];
      if (pool === undefined || offset === undefined) return;
      if ((yield) !== "answered") return;
      const { [offset]: _, ...others } = entries;
      if (!this.#write(pool, others)) continue;
      if ((yield) !== "answered") return;
      const reservation = nameOf(this.#addressOf(offset));
      if (this.#store.find(RESERVATIONS, reservation) !== undefined)
        this.#store.remove(RESERVATIONS, reservation, {});
      return;
    }
  }

  /** What its reconciler does each night. @param addresses of each pod that is there, by `namespace/name` */
  reconcile(addresses: ReadonlyMap<string, string>): void {
    const pool = this.#store.find(POOLS, this.name);
    const kept = Object.entries(entriesOf(pool)).filter(
      // An entry without a pod is left alone.
      ([offset, { podref }]) => podref === "" || addresses.get(podref) === this.#addressOf(offset),
    );
    if (pool !== undefined) this.#write(pool, Object.fromEntries(kept));
    for (const one of this.#store.all(RESERVATIONS))
      if (addresses.get(podOf(one)) !== one.metadata.name)
        this.#store.remove(RESERVATIONS, one.metadata.name, {});
  }

  #createPool(): void {
    const metadata = { name: this.name, namespace: NAMESPACE };
    this.#store.create(POOLS, { metadata, spec: { range: this.#range, allocations: {} } });
  }

  /** @returns false where the IPPool has changed since it was read */
  #write(pool: Stored, allocations: Json): boolean {
    try {
      const spec = { ...(pool["spec"] as Json), allocations };
      this.#store.update(POOLS, this.name, { ...pool, spec });
      return true;
    } catch (error) {
      if (error instanceof Refusal && error.code === 409) return false;
      throw error;
    }
  }

  #reserve(address: string, pod: string, ifname: string): boolean {
    if (this.#store.find(RESERVATIONS, nameOf(address)) !== undefined) return false;
    const metadata = { name: nameOf(address), namespace: NAMESPACE };
    this.#store.create(RESERVATIONS, { metadata, spec: { podref: pod, ifname } });
    return true;
  }

  #firstFree(entries: Readonly<Record<string, Entry>>, others: ReadonlySet<string>): string | undefined {
    const prefix = parsePrefix(this.#range);
    if (prefix === undefined) throw new Error(`${this.#range} is not a network`);
    const { first, last } = rangeOf(prefix);
    for (let offset = 1n; offset < last - first; offset++)
      if (entries[String(offset)] === undefined && !others.has(String(offset))) return String(offset);
    return undefined;
  }

  #addressOf(offset: string): string {
    const first = parseAddress(this.#range.split("/")[0] ?? "");
    if (first === undefined) throw new Error(`${this.#range} is not a network`);
    return formatAddress({ ...first, value: first.value + BigInt(offset) });
  }
}

/** Runs a call to its end, every request of which is answered. */
export function ended<Result>(call: Generator<void, Result, Fate>): Result {
  let step = call.next("answered");
  while (step.done !== true) step = call.next("answered");
  return step.value;
}

function entriesOf(pool: Stored | undefined): Readonly<Record<string, Entry>> {
  return ((pool?.["spec"] as Json | undefined)?.["allocations"] ?? {}) as Readonly<Record<string, Entry>>;
}

function isOf(container: string, ifname: string) {
  return ([, { id, ifname: own }]: readonly [string, Entry]) => id === container && own === ifname;
}

function podOf({ spec }: Stored): string {
  return String((spec as Json)["podref"]);
}

/** Name of an address's reservation. */
function nameOf(address: string): string {
  return address.replaceAll(":", "-");
}
