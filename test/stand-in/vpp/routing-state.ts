import type { Interface } from "./state.ts";
import type { Fields } from "./wire-format.ts";

const V4 = 0;
const NO_TABLE = -3;
const NOT_FOUND = -6;
const NO_INTERFACE = -2;

/** Tables, addresses, neighbours and routes of the stand-in, with the habits that a real VPP was seen to have. */
export class RoutingState {
  /** Names of tables, as `<number> <4 or 6>`. */
  readonly tables = new Map([
    ["0 4", "ipv4-VRF:0"],
    ["0 6", "ipv6-VRF:0"],
  ]);
  /** Interfaces that use the addresses of another. */
  readonly unnumbered = new Map<number, number>();
  readonly addresses: Fields[] = [];
  /** By interface and address. */
  readonly neighbors = new Map<string, Fields>();
  /** Interfaces that speak IPv6. */
  readonly ip6 = new Set<number>();
  readonly #tableOf = new Map<string, number>();
  /** Paths by table and prefix. */
  readonly #routes = new Map<string, readonly Fields[]>();
  readonly #interfaces: ReadonlyMap<number, Interface>;

  /** Whether neighbours outlive their interface, as before VPP 26.02. */
  readonly #keepsNeighbors: boolean;

  constructor(
    interfaces: ReadonlyMap<number, Interface>,
    { keepsNeighbors }: { readonly keepsNeighbors: boolean },
  ) {
    this.#interfaces = interfaces;
    this.#keepsNeighbors = keepsNeighbors;
  }

  addTable({ is_add, table_id, is_ip6, name }: Fields): number {
    if (is_add !== true) throw new Error(`table ${table_id} is deleted, which may be in use`);
    const key = `${table_id} ${is_ip6 === true ? 6 : 4}`;
    const text = String(name) === "" ? `ipv${is_ip6 === true ? 6 : 4}-VRF:${table_id}` : String(name);
    if (!this.tables.has(key)) this.tables.set(key, text);
    return 0;
  }

  tableOf(index: number, is6: boolean): number {
    return this.#tableOf.get(`${index} ${is6 ? 6 : 4}`) ?? 0;
  }

  setTable({ sw_if_index, is_ipv6, vrf_id }: Fields): number {
    const [index, is6] = [Number(sw_if_index), is_ipv6 === true];
    if (!this.#interfaces.has(index)) return NO_INTERFACE;
    if (!this.tables.has(`${vrf_id} ${is6 ? 6 : 4}`)) return NO_TABLE;
    const hasAddress = this.addressesOf(index, is6).length > 0;
    if (this.tableOf(index, is6) !== vrf_id && (hasAddress || this.unnumbered.has(index))) return -114;
    this.#tableOf.set(`${index} ${is6 ? 6 : 4}`, Number(vrf_id));
    return 0;
  }

  addressesOf(index: number, is6: boolean): readonly Fields[] {
    return this.addresses.filter((one) => one.sw_if_index === index && (one.af !== V4) === is6);
  }

  addAddress(ask: Fields): number {
    const { sw_if_index, is_add, af, un, len } = ask;
    const index = Number(sw_if_index);
    if (!this.#interfaces.has(index)) return NO_INTERFACE;
    const is6 = af !== V4;
    const at = this.addresses.findIndex(
      (one) => one.sw_if_index === index && isSame(one.un, un) && one.len === len,
    );
    if (is_add !== true) {
      if (at < 0) return -60;
      this.addresses.splice(at, 1);
      return 0;
    }
    if (len !== (is6 ? 128 : 32)) throw new Error(`an address of a whole network (/${len}) is given`);
    const vrf = this.tableOf(index, is6);
    const twin = this.addresses.find(
      (one) => isSame(one.un, un) && one.af === af && this.tableOf(Number(one.sw_if_index), is6) === vrf,
    );
    if (twin !== undefined) return is6 ? -127 : -105;
    this.addresses.push({ sw_if_index: index, af, un, len });
    return 0;
  }

  setUnnumbered({ sw_if_index, unnumbered_sw_if_index, is_add }: Fields): number {
    const [of, index] = [Number(sw_if_index), Number(unnumbered_sw_if_index)];
    if (!this.#interfaces.has(index)) return NO_INTERFACE;
    if (is_add !== true) {
      this.unnumbered.delete(index);
      return 0;
    }
    if (!this.#interfaces.has(of)) return -10;
    if ([false, true].some((is6) => this.tableOf(of, is6) !== this.tableOf(index, is6))) return -74;
    this.unnumbered.set(index, of);
    return 0;
  }

  setIp6({ sw_if_index, enable }: Fields): number {
    const index = Number(sw_if_index);
    if (!this.#interfaces.has(index)) return NO_INTERFACE;
    if (enable === true) this.ip6.add(index);
    else this.ip6.delete(index);
    return 0;
  }

  addNeighbor({ is_add, sw_if_index, flags, mac_address, af, un }: Fields): number {
    const index = Number(sw_if_index);
    if (!this.#interfaces.has(index)) return NO_INTERFACE;
    const key = `${index} ${hex(un)}`;
    if (is_add !== true) return this.neighbors.delete(key) ? 0 : NOT_FOUND;
    this.neighbors.set(key, { sw_if_index: index, flags, mac_address, af, un });
    return 0;
  }

  addRoute({ is_add, is_multipath, table_id, af, un, len, paths }: Fields): number {
    if (!this.tables.has(`${table_id} ${af === V4 ? 4 : 6}`)) return NO_TABLE;
    const asked = paths as readonly Fields[];
    const key = routeKey(table_id, af, un, len);
    const there = this.#routes.get(key) ?? [];
    if (asked.some((path) => !this.#interfaces.has(Number(path.sw_if_index)))) return -54;
    const others = there.filter((path) => asked.every((one) => one.sw_if_index !== path.sw_if_index));
    if (is_add !== true && there.length > 0 && others.length === there.length) {
      throw new Error(`a way that route ${key} does not have is taken off it, which VPP may not survive`);
    }
    const kept = is_multipath === true ? others : [];
    const now = is_add === true ? [...kept, ...asked.map((path) => ({ ...path, address: un }))] : kept;
    if (now.length === 0) this.#routes.delete(key);
    else this.#routes.set(key, now);
    return 0;
  }

  /** Paths to exactly this prefix, or the negative retval. */
  findRoute({ table_id, af, un, len }: Fields): readonly Fields[] | number {
    const is6 = af !== V4;
    if (!this.tables.has(`${table_id} ${is6 ? 6 : 4}`)) return NO_TABLE;
    const local = this.addresses.find(
      (one) => one.af === af && isSame(one.un, un) && this.tableOf(Number(one.sw_if_index), is6) === table_id,
    );
    if (local !== undefined) return [{ sw_if_index: local.sw_if_index, type: 1, address: un, weight: 1 }];
    return this.#routes.get(routeKey(table_id, af, un, len)) ?? NOT_FOUND;
  }

  /** Routes that were made by hand, those of interfaces that are gone too. */
  routes(): readonly string[] {
    return [...this.#routes.keys()].sort();
  }

  /**
   * What goes with an interface; routes by it stay, and lead nowhere.
   * @throws Error where others would keep using addresses that are gone
   */
  forget(index: number): void {
    const user = [...this.unnumbered].find(([, of]) => of === index)?.[0];
    if (user !== undefined) throw new Error(`interface ${index} is deleted while ${user} uses its addresses`);
    this.unnumbered.delete(index);
    this.ip6.delete(index);
    for (const family of [4, 6]) this.#tableOf.delete(`${index} ${family}`);
    for (const [key, { sw_if_index }] of this.neighbors) {
      if (sw_if_index !== index) continue;
      if (this.#keepsNeighbors)
        throw new Error(`neighbour ${key} outlives its interface, which crashes VPP later`);
      this.neighbors.delete(key);
    }
    this.addresses.splice(
      0,
      Number.POSITIVE_INFINITY,
      ...this.addresses.filter((one) => one.sw_if_index !== index),
    );
  }
}

const hex = (value: unknown) => (value as Buffer).toString("hex");
const isSame = (one: unknown, other: unknown) => (one as Buffer).equals(other as Buffer);
const routeKey = (table: unknown, af: unknown, un: unknown, len: unknown) =>
  `${table} ${af} ${hex(un)}/${len}`;
