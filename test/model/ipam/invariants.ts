import { parseAddressBlock } from "../../../src/address-objects/address-block.ts";
import { parseAddressSpace } from "../../../src/address-objects/address-space.ts";
import { formatAddress, isInPrefix, parseAddress } from "../../../src/addresses/address.ts";
import { blocksOf, numberOfBlock } from "../../../src/addresses/grid.ts";
import { RangeSet } from "../../../src/addresses/range-set.ts";
import { rangeOf } from "../../../src/addresses/subnet.ts";
import type { Answer } from "../../../src/cni/answer.ts";
import type { Allocation, Entry } from "../../../src/ipam-agent/journal-entries.ts";
import type { Stored } from "../../stand-in/api-server/object-store.ts";
import type { DoneWrite } from "../simulated-api.ts";
import type { IpamCluster, Pod } from "./ipam-cluster.ts";
import type { IpamNode } from "./ipam-node.ts";
import { JournalView } from "./journal-view.ts";
import { COOLDOWN_SECONDS, poolsOf } from "./networks.ts";
import type { Sandbox } from "./truth.ts";

const MAX_OBJECT_BYTES = 64 * 1024;
/** Between two looks, of a clock that runs at most at double rate. */
const LOOKS_MS = 60_000 / 2;
/** Of one machine, by its own clock. */
const TWO_LOOKS_MS = 60_000;
const COOLDOWN_MS = COOLDOWN_SECONDS * 1000;

/**
 * What must always be so, by the numbers of the design: of what running sandboxes of all nodes were given, of what the
 * API server has, and of what is on the nodes' disks.
 */
export class Invariants {
  /** The first that is broken. */
  violation: string | undefined;
  /** Writes of blocks, and addresses given. */
  readonly counts = { blockWrites: 0, given: 0, refused: 0, collected: 0, blocksDeleted: 0, quarantined: 0 };
  readonly #cluster: IpamCluster;
  readonly #journals = new Map<IpamNode, JournalView>();
  /** At the step before, with boot and journal. */
  readonly #allocated = new Map<
    IpamNode,
    { readonly of: string; readonly containers: ReadonlySet<string> }
  >();

  constructor(cluster: IpamCluster) {
    this.#cluster = cluster;
  }

  broken(invariant: string, what: string): void {
    if (this.violation !== undefined) return;
    this.violation = `${invariant}: ${what}`;
    this.#cluster.note(`BROKEN ${this.violation}`);
  }

  journalOf(node: IpamNode): ReadonlyMap<string, Entry> {
    const view = this.#journals.get(node) ?? new JournalView();
    this.#journals.set(node, view);
    return view.read(node.machine.disk.names.get(node.journalPath), node.machine.boots);
  }

  /** An ADD was answered with addresses. */
  onGiven(node: IpamNode, sandbox: Sandbox, addresses: readonly string[]): void {
    this.counts.given += addresses.length;
    for (const address of addresses) {
      this.#oneOwner(sandbox, address);
      this.#restedBefore(node, sandbox, address);
      this.#ofAnOwnBlock(node, sandbox, address);
    }
    this.#durable(node, sandbox, addresses);
    this.#cluster.truth.given(sandbox, addresses);
  }

  /** I1 */
  #oneOwner(sandbox: Sandbox, address: string): void {
    const other = this.#cluster.truth.ownerOf(sandbox.space, address);
    if (other !== undefined && other !== sandbox)
      this.broken("I1", `${address} has two owners: ${nameOf(other)} and ${nameOf(sandbox)}`);
  }

  /** I3, of pods too: an address rests for the pool's cooldown. */
  #restedBefore(node: IpamNode, sandbox: Sandbox, address: string): void {
    const end = this.#cluster.truth.endOf(sandbox.space, address);
    if (end === undefined) return;
    const { machine, simulation } = { ...node, simulation: this.#cluster.simulation };
    const isSameClock = end.machine === machine && end.boot === machine.boots;
    const restedMs = isSameClock ? machine.monotonicMs - end.monotonicMs : (simulation.nowMs - end.atMs) * 2;
    if (restedMs < COOLDOWN_MS)
      this.broken("I3", `${address} rested for ${restedMs} ms before ${nameOf(sandbox)} got it`);
  }

  /** I6, I14 */
  #ofAnOwnBlock(node: IpamNode, sandbox: Sandbox, text: string): void {
    const address = parseAddress(text);
    const block = this.#blocks().find(
      ({ space, prefix }) => space === sandbox.space && address !== undefined && isInPrefix(prefix, address),
    );
    const uid = this.#cluster.server.store.find("nodes", node.name)?.metadata.uid;
    const { owner, state } = block ?? {};
    if (owner?.kind !== "Node" || owner.name !== node.name || owner.uid !== uid || state !== "Bound")
      this.broken(
        owner?.kind === "Foreign" || owner?.kind === "Shared" ? "I14" : "I6",
        `${nameOf(sandbox)} got ${text} of a block that is ${JSON.stringify(owner)}, ${state}`,
      );
  }

  /** I4 */
  #durable({ machine, journalPath }: IpamNode, sandbox: Sandbox, addresses: readonly string[]): void {
    const text = machine.disk.durable(journalPath)?.toString() ?? "";
    const line = text.split("\n").findLast((one) => one.includes(`/${sandbox.containerId}/`));
    if (line === undefined || !addresses.every((address) => line.includes(`"${address}/`)))
      this.broken("I4", `${nameOf(sandbox)} got ${addresses} before that was on the disk`);
  }

  /** I10: whether an ADD must succeed whatever the API server does. */
  beforeAdd(node: IpamNode, { network, space }: Sandbox): boolean {
    const { agent, machine, habits } = node;
    const isAway = !this.#cluster.server.isUp || habits.isPartitioned;
    if (!isAway || agent === undefined || machine.disk.failure !== undefined) return false;
    const { state } = agent;
    if (!state.isConfirmed || network !== "blue") return false;
    const pool = state.pools.get("blue");
    if (pool === undefined || space !== pool.space) return false;
    const others = [...node.sandboxes].filter(({ addresses }) => addresses === undefined).length;
    const free = [...state.blocks.values()]
      .filter(
        ({ entry, prefix, isUsable }) => isUsable && entry.space === space && prefix.family === pool.family,
      )
      .reduce((sum, block) => sum + block.counts(pool.usable, machine.monotonicMs, COOLDOWN_MS).free, 0);
    return free > others * 2;
  }

  onRefused(node: IpamNode, sandbox: Sandbox, mustSucceed: boolean, answer: Answer | undefined): void {
    this.counts.refused += 1;
    const text = answer?.stdout ?? "no answer";
    this.#cluster.note(`${node.name} ${nameOf(sandbox)}: ADD failed: ${text}`);
    const isExcused =
      answer === undefined ||
      sandbox.isForgotten ||
      node.machine.disk.failure !== undefined ||
      /superseded/.test(text);
    if (mustSucceed && !isExcused) this.broken("I10", `an ADD failed while addresses were free: ${text}`);
    if (/"code":999/.test(text)) this.broken("errors", `an ADD failed with a defect: ${text}`);
  }

  /** The API server has done a write. */
  onWrite(write: DoneWrite): void {
    const { after, collection, name } = write;
    if (after !== undefined && JSON.stringify(after).length > MAX_OBJECT_BYTES)
      this.broken("I11", `${collection}/${name} has more than 64 KiB`);
    if (collection === "addressblocks") this.#onBlockWrite(write);
  }

  #onBlockWrite({ verb, name, program, before, after, preconditions }: DoneWrite): void {
    this.counts.blockWrites += 1;
    const node = this.#cluster.nodes.find(({ machine }) => machine === program.machine);
    this.#cluster.note(
      `${program.machine.name} ${verb} block ${name} ${JSON.stringify((after ?? before)?.["spec"])}`,
    );
    const { owner: was, state: stateBefore } = ownerOf(before);
    const { owner: is, state } = ownerOf(after);
    // I8: every change names the version that it is of, and a deletion the object too.
    if (verb !== "create" && preconditions.resourceVersion === undefined)
      this.broken("I8", `${name} was changed without a resourceVersion`);
    if (verb === "delete" && preconditions.uid === undefined)
      this.broken("I8", `${name} was deleted without its uid`);
    if ((was?.kind ?? "Node") !== "Node" && (after === undefined || is?.kind !== was?.kind))
      this.broken("I14", `${name}, which is ${was?.kind}, was changed or deleted`);
    // I6: no block changes its node, and none goes while a sandbox has an address of it.
    if (was !== undefined && is !== undefined && was.uid !== is.uid)
      this.broken("I6", `${name} was ${JSON.stringify(was)} and is ${JSON.stringify(is)}`);
    if (after === undefined) this.#isUnused(name, before);
    if (node !== undefined) {
      if (is !== undefined && is.name !== node.name) this.broken("I6", `${node.name} made ${name} another's`);
      return;
    }
    if (state === "Quarantined" && stateBefore !== "Quarantined") this.#isOfAGoneNode(name, was);
    if (after === undefined) {
      this.counts.blocksDeleted += 1;
      if (stateBefore !== "Quarantined") this.broken("I8", `${name} was deleted without being quarantined`);
    }
  }

  #isUnused(name: string, before: Stored | undefined): void {
    const block = parseAddressBlock(before);
    for (const { space, addresses, ...sandbox } of this.#cluster.truth.running)
      for (const text of addresses ?? []) {
        const address = parseAddress(text);
        if (space === block.space && address !== undefined && isInPrefix(block.prefix, address))
          this.broken("I6", `${name} was deleted while ${sandbox.containerId} has ${text}`);
      }
  }

  /** I8: a node that was gone at two looks. */
  #isOfAGoneNode(name: string, owner: Owner | undefined): void {
    this.counts.quarantined += 1;
    const { server, nodes, simulation } = this.#cluster;
    const current = server.store.find("nodes", owner?.name ?? "");
    const node = nodes.find((one) => one.name === owner?.name);
    if (node === undefined || current?.metadata.uid !== owner?.uid) return;
    const { goneSinceMs } = node;
    if (goneSinceMs === undefined || simulation.nowMs - goneSinceMs < LOOKS_MS)
      this.broken("I8", `${name} was quarantined, and ${owner?.name} is gone since ${goneSinceMs}`);
  }

  /** After each step. */
  check(): void {
    for (const node of this.#cluster.nodes) {
      this.#heldByTheirNode(node);
      this.#collectedLate(node);
    }
  }

  /** I8: without a DEL or a GC an allocation goes only when its network namespace is gone at two looks. */
  #collectedLate(node: IpamNode): void {
    const { machine } = node;
    const journal = this.journalOf(node);
    const identity = journal.get("identity");
    // A power cut takes what was not synced, and so was not answered: nothing was released.
    const boot = machine.isOn ? machine.boots : "off";
    const of = `${boot} ${identity?.kind === "identity" ? identity.journal : ""}`;
    const before = this.#allocated.get(node);
    const containers = new Set<string>();
    for (const entry of journal.values()) if (entry.kind === "allocation") containers.add(entry.containerId);
    this.#allocated.set(node, { of, containers });
    if (before?.of !== of) return;
    for (const containerId of before.containers) {
      const sandbox = this.#cluster.sandboxOf(containerId);
      if (sandbox === undefined || containers.has(containerId) || sandbox.isReleased || sandbox.isForgotten)
        continue;
      const goneMs = machine.monotonicMs - (sandbox.netnsGoneAtMs ?? machine.monotonicMs);
      if (goneMs < TWO_LOOKS_MS) this.broken("I8", `${nameOf(sandbox)} was released after ${goneMs} ms`);
    }
  }

  /** I5, I7: what a running sandbox was given stays allocated on its node, whatever came late or failed. */
  #heldByTheirNode(node: IpamNode): void {
    const { agent, machine } = node;
    if (!machine.isOn || agent === undefined) return;
    const journal = this.journalOf(node);
    for (const sandbox of node.sandboxes) {
      if (sandbox.addresses === undefined || sandbox.isForgotten) continue;
      const { network, containerId, interfaceName } = sandbox;
      const entry = journal.get(`allocation/${network}/${containerId}/${interfaceName}`) as
        | Allocation
        | undefined;
      const held = entry?.addresses.map(({ address }) => address.split("/")[0]);
      if (!sandbox.addresses.every((address) => held?.includes(address)))
        this.broken("I5", `${nameOf(sandbox)} runs with ${sandbox.addresses}, allocated is ${held}`);
    }
  }

  /** I9: after peace, nothing is left of what is over, and nothing stands in the way of what comes. */
  checkPeace(): void {
    const { nodes, truth, server } = this.#cluster;
    const running = truth.running;
    for (const node of nodes) {
      const journal = this.journalOf(node);
      const uid = server.store.find("nodes", node.name)?.metadata.uid;
      if (!node.machine.isOn) continue;
      for (const [key, entry] of journal) {
        if (entry.kind === "allocation") {
          const sandbox = this.#cluster.sandboxOf(entry.containerId);
          if (sandbox === undefined || !running.has(sandbox)) this.broken("I9", `${node.name} leaks ${key}`);
        }
        if (entry.kind === "block") {
          const { owner } = ownerOf(server.store.find("addressblocks", key.slice("block/".length)));
          if (owner?.uid !== uid || entry.state !== "bound")
            this.broken(
              "I9",
              `${node.name} still knows ${key}, ${entry.state}, which is ${JSON.stringify(owner)}`,
            );
        }
      }
    }
    for (const block of server.store.all("addressblocks")) {
      const { owner, state } = ownerOf(block);
      if (owner?.kind !== "Node") continue;
      const uid = server.store.find("nodes", owner.name ?? "")?.metadata.uid;
      if (uid !== owner.uid || state !== "Bound")
        this.broken("I9", `block ${block.metadata.name} is ${state} by ${JSON.stringify(owner)}`);
      const node = nodes.find(({ name }) => name === owner.name);
      if (
        node !== undefined &&
        !this.#hasSurvivors(node) &&
        !this.journalOf(node).has(`block/${block.metadata.name}`)
      )
        this.broken("I9", `block ${block.metadata.name} is unknown to its node`);
    }
    for (const pod of this.#cluster.pods)
      if (pod.isWanted && pod.sandbox?.addresses === undefined && !this.#isFull(pod))
        this.broken("I9", `${pod.name} (${pod.network}) on ${pod.node.name} has no address`);
  }

  /** Whether something still runs that may have addresses of a journal that was lost. */
  #hasSurvivors(node: IpamNode): boolean {
    const identity = this.journalOf(node).get("identity");
    const survivors = new Set(identity?.kind === "identity" ? identity.survivors : []);
    const isThere = ({ uid }: Pod) => survivors.has(uid);
    return [...this.#cluster.pods].some(isThere) || [...node.namespaces].some((path) => survivors.has(path));
  }

  /** Whether a network has no free block, and the node's own have no free address. */
  #isFull({ network, node }: Pod): boolean {
    const { store } = this.#cluster.server;
    return poolsOf(network, store).some(({ usable, family, space }) => {
      const prefixes = parseAddressSpace(store.get("addressspaces", space)).blockPrefixes;
      const owned = this.#blocks().filter((block) => block.space === space && block.prefix.family === family);
      const cells = blocksOf(usable, family, prefixes);
      if (cells.size > 1000n) return false;
      const taken = RangeSet.of(owned.map(({ prefix }) => oneOf(numberOfBlock(prefix))));
      if (cells.minus(taken).size > 0n) return false;
      const own = owned.filter(({ owner }) => owner.kind === "Node" && owner.name === node.name);
      const free = own.flatMap(({ prefix }) => [...usable.clip(rangeOf(prefix)).values()]);
      return free.every(
        (value) => this.#cluster.truth.ownerOf(space, formatAddress({ family, value })) !== undefined,
      );
    });
  }

  #blocks() {
    return this.#cluster.server.store.all("addressblocks").map((object) => parseAddressBlock(object));
  }
}

const oneOf = (number: bigint) => ({ first: number, last: number });

interface Owner {
  readonly kind: string;
  readonly name?: string;
  readonly uid?: string;
}

function ownerOf(object: Stored | undefined): { readonly owner: Owner | undefined; readonly state: unknown } {
  const { owner, state } = (object?.["spec"] ?? {}) as { readonly owner?: Owner; readonly state?: unknown };
  return { owner, state };
}

function nameOf({ containerId, pod, node, network }: Sandbox): string {
  return `${containerId} of ${pod.name} on ${node} (${network})`;
}
