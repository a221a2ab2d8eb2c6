import { PacketGenerator } from "./packet-generator.ts";
import { RoutingState } from "./routing-state.ts";
import { VhostSocket } from "./vhost-socket.ts";
import type { Fields } from "./wire-format.ts";

/** An interface of the stand-in. */
export interface Interface {
  readonly index: number;
  /** The same for an interface that is no sub-interface. */
  readonly parent: number;
  readonly name: string;
  readonly vlan: number;
  readonly vhost?: { readonly path: string; readonly isServer: boolean; readonly socket: VhostSocket };
  tag: string;
  mtu: readonly number[];
  adminUp: boolean;
  /** Whether a guest is there with its memory and its queues. */
  guest: boolean;
  /** Bridge domain and split-horizon group. */
  member: { readonly bridge: number; readonly group: number } | undefined;
  rewrite: readonly [op: number, dot1q: number, tag1: number, tag2: number];
  filtered: boolean;
  readonly mac: Buffer;
  /** What drives it. */
  readonly device: "local" | "dpdk" | "vhost-user";
}

const NO_REWRITE = [0, 0, 0, 0] as const;
const ID_MAX = 0xff_ffff;

/** Everything that VPP forgets when it ends. */
export class SwitchState {
  readonly interfaces = new Map<number, Interface>();
  readonly bridges = new Map<number, Fields>();
  readonly policers = new Map<string, Fields>();
  /** Interfaces that a policer is applied to, as `<direction> <index>`, with its name. */
  readonly applied = new Map<string, string>();
  readonly generator = new PacketGenerator(this.interfaces);
  readonly routing: RoutingState;
  /** Numbers of vhost-user interfaces and of all that are free again, the last one first. */
  readonly #freeIndices: number[] = [];
  readonly #freeInstances: number[] = [];
  /** How far VPP's tables of policers by interface reach, by direction. */
  readonly #policed: Record<string, number> = {};
  #indices = 0;
  #instances = 0;
  readonly #freeLoopbacks: number[] = [];
  #loopbacks = 0;

  constructor(options: { readonly keepsNeighbors: boolean; readonly nics: readonly string[] }) {
    this.routing = new RoutingState(this.interfaces, options);
    this.#add({ name: "local0" });
    for (const name of options.nics) this.#add({ name, mtu: [9000, 0, 0, 0], device: "dpdk" });
  }

  createVhost({ sock_filename, is_server, tag }: Fields): readonly [retval: number, index: number] {
    const path = String(sock_filename);
    if (path === "") return [-73, 0xffff_ffff];
    const twin = [...this.interfaces.values()].find(({ vhost }) => vhost?.path === path);
    if (twin !== undefined) return [-79, twin.index];
    const isServer = is_server === true;
    const instance = this.#freeInstances.pop() ?? this.#instances++;
    const vhost = { path, isServer, socket: new VhostSocket(path, isServer) };
    const made = this.#add({ name: `VirtualEthernet0/0/${instance}`, vhost, device: "vhost-user" });
    made.tag = String(tag);
    made.mtu = [9000, 0, 0, 0];
    return [0, made.index];
  }

  /** Like VPP it takes a sub-interface's index for its parent's, and removes that with all of its own. */
  deleteVhost(index: number): readonly number[] {
    const parent = this.interfaces.get(this.interfaces.get(index)?.parent ?? -1);
    if (parent?.vhost === undefined) return [];
    parent.vhost.socket.close();
    this.#freeInstances.push(Number(parent.name.split("/").at(-1)));
    const gone = [...this.interfaces.values()].filter((one) => one.parent === parent.index);
    for (const one of gone.reverse()) this.#remove(one.index);
    return gone.map((one) => one.index);
  }

  createLoopback(mac: Buffer): number {
    const instance = this.#freeLoopbacks.pop() ?? this.#loopbacks++;
    const isGiven = !mac.equals(Buffer.alloc(6));
    return this.#add({ name: `loop${instance}`, ...(isGiven ? { mac } : {}) }).index;
  }

  deleteLoopback(index: number): number {
    const name = this.interfaces.get(index)?.name ?? "";
    if (!name.startsWith("loop")) return -2;
    this.#remove(index);
    this.#freeLoopbacks.push(Number(name.slice("loop".length)));
    return 0;
  }

  createVlan(parent: number, vlan: number): readonly [retval: number, index: number] {
    const above = this.interfaces.get(parent);
    if (above === undefined) return [-2, 0xffff_ffff];
    if (vlan === 0 || vlan > 4095) return [-55, 0xffff_ffff];
    const twin = [...this.interfaces.values()].find((one) => one.parent === parent && one.vlan === vlan);
    if (twin !== undefined) return [-56, 0xffff_ffff];
    return [0, this.#add({ name: `${above.name}.${vlan}`, parent, vlan }).index];
  }

  deleteVlan(index: number): number {
    const found = this.interfaces.get(index);
    if (found === undefined) return -2;
    if (found.parent === found.index) return -98;
    this.#remove(index);
    return 0;
  }

  /** A bridge domain that is not there comes into being; leaving one clears rewriting and filter. */
  setBridge({ rx_sw_if_index, bd_id, shg, enable }: Fields): number {
    const found = this.interfaces.get(Number(rx_sw_if_index));
    if (found === undefined) return -2;
    const bridge = Number(bd_id);
    if (enable !== true) {
      found.member = undefined;
      found.rewrite = NO_REWRITE;
      found.filtered = false;
      return 0;
    }
    if (bridge > ID_MAX) return -122;
    if (bridge !== 0 && !this.bridges.has(bridge)) this.bridges.set(bridge, { ...IMPLICIT, bd_id: bridge });
    found.member = { bridge, group: Number(shg) };
    return 0;
  }

  addBridge(values: Fields): number {
    const id = Number(values.bd_id);
    if (id > ID_MAX) return -122;
    if (id === 0 || this.bridges.has(id)) return -119;
    this.bridges.set(id, values);
    return 0;
  }

  deleteBridge(id: number): number {
    if (id === 0) return -121;
    if (this.membersOf(id).length > 0) return -120;
    return this.bridges.delete(id) ? 0 : -6;
  }

  membersOf(bridge: number): readonly Interface[] {
    return [...this.interfaces.values()].filter(({ member }) => member?.bridge === bridge);
  }

  rewrite({ sw_if_index, vtr_op, push_dot1q, tag1, tag2 }: Fields): number {
    const found = this.interfaces.get(Number(sw_if_index));
    if (found === undefined) return -2;
    const op = Number(vtr_op);
    if (op > 8) return -7;
    if (op > 2 && found.vlan === 0) return -72;
    found.rewrite = op === 0 ? NO_REWRITE : [op, Number(push_dot1q), Number(tag1), Number(tag2)];
    return 0;
  }

  addPolicer(values: Fields): number {
    const name = String(values.name);
    if (this.policers.has(name)) return -81;
    const [cir, eir, cb, eb] = [Number(values.cir), Number(values.eir), Number(values.cb), Number(values.eb)];
    const twoRates = Number(values.type) >= 2;
    const sound = twoRates ? eir >= cir && eb > 0 : eir === 0 && eb === 0;
    if (cir === 0 || cb === 0 || !sound) return -7;
    this.policers.set(name, values);
    return 0;
  }

  /** @throws Error where a real VPP would keep using a policer that is gone */
  deletePolicer(name: string): number {
    if (!this.policers.has(name)) return -6;
    const still = [...this.applied].find(([, policer]) => policer === name)?.[0];
    if (still !== undefined) throw new Error(`policer ${name} is deleted while it is applied (${still})`);
    this.policers.delete(name);
    return 0;
  }

  /** @throws Error where a real VPP would write beside its memory, or count a policer twice */
  police(direction: "in" | "out", { name, sw_if_index, apply }: Fields): number {
    const index = Number(sw_if_index);
    if (!this.interfaces.has(index)) return -2;
    if (!this.policers.has(String(name))) return -6;
    const place = `${direction} ${index}`;
    const reach = this.#policed[direction] ?? 0;
    if (apply !== true) {
      if (index >= reach)
        throw new Error(`policer ${name} is taken off interface ${index}, where none ever was`);
      this.applied.delete(place);
      return 0;
    }
    if (this.applied.has(place))
      throw new Error(`a second policer is applied to interface ${index} (${direction})`);
    this.applied.set(place, String(name));
    this.#policed[direction] = Math.max(reach, index + 1);
    return 0;
  }

  close(): void {
    for (const { vhost } of this.interfaces.values()) vhost?.socket.close();
  }

  #add(one: Pick<Interface, "name"> & Partial<Interface>): Interface {
    const index = this.#freeIndices.pop() ?? this.#indices++;
    const made: Interface = {
      index,
      parent: index,
      vlan: 0,
      tag: "",
      mtu: [0, 0, 0, 0],
      adminUp: false,
      guest: false,
      member: undefined,
      rewrite: NO_REWRITE,
      filtered: false,
      mac: Buffer.from([2, 0xfe, 0, 0, index >> 8, index & 0xff]),
      device: "local",
      ...one,
    };
    this.interfaces.set(index, made);
    return made;
  }

  #remove(index: number): void {
    this.routing.forget(index);
    this.interfaces.delete(index);
    this.#freeIndices.push(index);
    for (const direction of ["in", "out"]) this.applied.delete(`${direction} ${index}`);
  }
}

const IMPLICIT = {
  flood: true,
  uu_flood: true,
  forward: true,
  learn: true,
  arp_term: false,
  arp_ufwd: false,
  mac_age: 0,
  bd_tag: "",
};
