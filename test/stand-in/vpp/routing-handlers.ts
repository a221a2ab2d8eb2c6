import { done, type Handler } from "./outcome.ts";

const ALL = 0xffff_ffff;
const IP6_NOT_ENABLED = -62;

/** What the stand-in does for requests about addresses, neighbours and routes. */
export const ROUTING_HANDLERS: readonly (readonly [string, Handler])[] = [
  ["ip_table_add_del", ({ routing }, ask) => done("ip_table_add_del", routing.addTable(ask))],
  [
    "ip_table_dump",
    ({ routing }) => ({
      says: [...routing.tables].map(([key, name]) => {
        const [table_id, family] = key.split(" ");
        return ["ip_table_details", { table_id: Number(table_id), is_ip6: family === "6", name }];
      }),
    }),
  ],
  ["sw_interface_set_table", ({ routing }, ask) => done("sw_interface_set_table", routing.setTable(ask))],
  [
    "sw_interface_get_table",
    ({ routing, interfaces }, { sw_if_index, is_ipv6 }) => {
      const index = Number(sw_if_index);
      if (!interfaces.has(index)) return done("sw_interface_get_table", -2, { vrf_id: ALL });
      return done("sw_interface_get_table", 0, { vrf_id: routing.tableOf(index, is_ipv6 === true) });
    },
  ],
  [
    "create_loopback",
    (state, { mac_address }) => {
      const index = state.createLoopback(mac_address as Buffer);
      return {
        ...done("create_loopback", 0, { sw_if_index: index }),
        changed: [{ index, deleted: false }],
      };
    },
  ],
  [
    "delete_loopback",
    (state, { sw_if_index }) => {
      const index = Number(sw_if_index);
      const retval = state.deleteLoopback(index);
      return { ...done("delete_loopback", retval), changed: retval === 0 ? [{ index, deleted: true }] : [] };
    },
  ],
  [
    "sw_interface_add_del_address",
    ({ routing }, ask) => done("sw_interface_add_del_address", routing.addAddress(ask)),
  ],
  [
    "ip_address_dump",
    ({ routing }, { sw_if_index, is_ipv6 }) => ({
      says: routing
        .addressesOf(Number(sw_if_index), is_ipv6 === true)
        .map((address) => ["ip_address_details", address]),
    }),
  ],
  [
    "sw_interface_set_unnumbered",
    ({ routing }, ask) => done("sw_interface_set_unnumbered", routing.setUnnumbered(ask)),
  ],
  [
    "ip_unnumbered_dump",
    ({ routing }, { sw_if_index }) => ({
      says: [...routing.unnumbered]
        .filter(([index]) => sw_if_index === ALL || sw_if_index === index)
        .map(([index, of]) => ["ip_unnumbered_details", { sw_if_index: index, ip_sw_if_index: of }]),
    }),
  ],
  [
    "sw_interface_ip6_enable_disable",
    ({ routing }, ask) => done("sw_interface_ip6_enable_disable", routing.setIp6(ask)),
  ],
  [
    "sw_interface_ip6_get_link_local_address",
    ({ routing }, { sw_if_index }) =>
      done(
        "sw_interface_ip6_get_link_local_address",
        routing.ip6.has(Number(sw_if_index)) ? 0 : IP6_NOT_ENABLED,
      ),
  ],
  [
    "ip_neighbor_add_del",
    ({ routing }, ask) => done("ip_neighbor_add_del", routing.addNeighbor(ask), { stats_index: 0 }),
  ],
  [
    "ip_neighbor_dump",
    ({ routing }, { sw_if_index, af }) => ({
      says: [...routing.neighbors.values()]
        .filter((one) => one.af === af && (sw_if_index === ALL || sw_if_index === one.sw_if_index))
        .map((neighbor) => ["ip_neighbor_details", neighbor]),
    }),
  ],
  [
    "ip_route_add_del",
    ({ routing }, ask) => done("ip_route_add_del", routing.addRoute(ask), { stats_index: 0 }),
  ],
  [
    "ip_route_lookup",
    ({ routing }, ask) => {
      if (ask.exact !== 1) throw new Error("a route is asked for that may be one of a wider prefix");
      const found = routing.findRoute(ask);
      return typeof found === "number"
        ? done("ip_route_lookup", found)
        : done("ip_route_lookup", 0, { ...ask, paths: found });
    },
  ],
];
