import { call, creation, dump, each, order } from "./call.ts";
import { array, bool, counted, f64, group, i32, octets, text, u8, u32 } from "./fields.ts";

// Messages about tables, addresses, neighbours and routes; as messages.ts has the others.

const index = { sw_if_index: u32 };
const ofFamily = { ...index, is_ipv6: bool };
const table = group({ table_id: u32, is_ip6: bool, name: text(64) });
const address = { af: u8, un: octets(16) };
const prefix = group({ ...address, len: u8 });
const neighbor = group({ ...index, flags: u8, mac_address: octets(6), ...address });
/** One way of a route; the labels are of MPLS. */
const path = {
  ...each(u32, "sw_if_index", "table_id", "rpf_id"),
  ...each(u8, "weight", "preference"),
  ...each(u32, "type", "flags", "proto"),
  nh: group({ address: octets(16), ...each(u32, "via_label", "obj_id", "classify_table_index") }),
  n_labels: u8,
  label_stack: array(group({ is_uniform: u8, label: u32, ttl: u8, exp: u8 }), 16),
};
const route = group({ ...each(u32, "table_id", "stats_index"), prefix, paths: counted(u8, path) });
const withStatistics = { retval: i32, stats_index: u32 };

/** Makes a table for routes of one address family, or does nothing where it exists. */
export const addTable = order("ip_table_add_del", "0ffdaec0", { is_add: bool, table });

export const dumpTables = dump("ip_table", ["51077d14", {}], ["c79fca0f", { table }]);

export const setTable = order("sw_interface_set_table", "df42a577", { ...ofFamily, vrf_id: u32 });

export const getTable = call(
  "sw_interface_get_table",
  ["2d033de4", ofFamily],
  ["a6eb0109", { retval: i32, vrf_id: u32 }],
);

export const createLoopback = creation("create_loopback", "42bb5d22", { mac_address: octets(6) });

export const deleteLoopback = order("delete_loopback", "f9e6675e", index);

export const addAddress = order("sw_interface_add_del_address", "5463d73b", {
  ...index,
  ...each(bool, "is_add", "del_all"),
  prefix,
});

export const dumpAddresses = dump("ip_address", ["2d033de4", ofFamily], ["ee29b797", { ...index, prefix }]);

/** Lets an interface without addresses (`unnumbered_sw_if_index`) use those of another. */
export const setUnnumbered = order("sw_interface_set_unnumbered", "154a6439", {
  ...each(u32, "sw_if_index", "unnumbered_sw_if_index"),
  is_add: bool,
});

export const dumpUnnumbered = dump(
  "ip_unnumbered",
  ["f9e6675e", index],
  ["cc59bd42", each(u32, "sw_if_index", "ip_sw_if_index")],
);

/** With it an interface has a link-local address, and answers neighbour solicitations. */
export const enableIp6 = order("sw_interface_ip6_enable_disable", "ae6cfcfb", { ...index, enable: bool });

export const getLinkLocal = call(
  "sw_interface_ip6_get_link_local_address",
  ["f9e6675e", index],
  ["d16b7130", { retval: i32, ip: octets(16) }],
);

export const addNeighbor = call(
  "ip_neighbor_add_del",
  ["0607c257", { is_add: bool, neighbor }],
  ["1992deab", withStatistics],
);

export const dumpNeighbors = dump(
  "ip_neighbor",
  ["d817a484", { ...index, af: u8 }],
  // VPP sends the age in its machine's own byte order.
  ["e29d79f0", { age: f64, neighbor }],
);

export const addRoute = call(
  "ip_route_add_del",
  ["b8ecfe0d", { ...each(bool, "is_add", "is_multipath"), route }],
  ["1992deab", withStatistics],
);

export const findRoute = call(
  "ip_route_lookup",
  ["710d6471", { table_id: u32, exact: u8, prefix }],
  ["5d8febcb", { retval: i32, route }],
);
