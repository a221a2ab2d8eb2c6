import { call, done, dump, index, made, shape } from "./call.ts";
import { array, bool, counted, f64, group, i32, octets, text, u8, u32 } from "./fields.ts";

// Messages about tables, addresses, neighbours and routes; as messages.ts has the others.

const table = { table_id: u32, is_ip6: bool, name: text(64) };
const address = { af: u8, un: octets(16) };
const prefix = group({ ...address, len: u8 });
const neighbor = group({ ...index, flags: u8, mac_address: octets(6), ...address });
/** One way of a route; the labels are of MPLS. */
const path = {
  ...index,
  table_id: u32,
  rpf_id: u32,
  weight: u8,
  preference: u8,
  type: u32,
  flags: u32,
  proto: u32,
  nh: group({ address: octets(16), via_label: u32, obj_id: u32, classify_table_index: u32 }),
  n_labels: u8,
  label_stack: array(group({ is_uniform: u8, label: u32, ttl: u8, exp: u8 }), 16),
};
const route = group({ table_id: u32, stats_index: u32, prefix, paths: counted(u8, path) });

/** Makes a table for routes of one address family, or does nothing where it exists. */
export const addTable = call(
  shape("ip_table_add_del", "0ffdaec0", { is_add: bool, table: group(table) }),
  done("ip_table_add_del"),
);

export const dumpTables = dump(
  shape("ip_table_dump", "51077d14", {}),
  shape("ip_table_details", "c79fca0f", { table: group(table) }),
);

export const setTable = call(
  shape("sw_interface_set_table", "df42a577", { ...index, is_ipv6: bool, vrf_id: u32 }),
  done("sw_interface_set_table"),
);

export const getTable = call(
  shape("sw_interface_get_table", "2d033de4", { ...index, is_ipv6: bool }),
  shape("sw_interface_get_table_reply", "a6eb0109", { retval: i32, vrf_id: u32 }),
);

export const createLoopback = call(
  shape("create_loopback", "42bb5d22", { mac_address: octets(6) }),
  made("create_loopback"),
);

export const deleteLoopback = call(shape("delete_loopback", "f9e6675e", index), done("delete_loopback"));

export const addAddress = call(
  shape("sw_interface_add_del_address", "5463d73b", { ...index, is_add: bool, del_all: bool, prefix }),
  done("sw_interface_add_del_address"),
);

export const dumpAddresses = dump(
  shape("ip_address_dump", "2d033de4", { ...index, is_ipv6: bool }),
  shape("ip_address_details", "ee29b797", { ...index, prefix }),
);

/** Lets an interface without addresses (`unnumbered_sw_if_index`) use those of another. */
export const setUnnumbered = call(
  shape("sw_interface_set_unnumbered", "154a6439", { ...index, unnumbered_sw_if_index: u32, is_add: bool }),
  done("sw_interface_set_unnumbered"),
);

export const dumpUnnumbered = dump(
  shape("ip_unnumbered_dump", "f9e6675e", index),
  shape("ip_unnumbered_details", "cc59bd42", { ...index, ip_sw_if_index: u32 }),
);

/** With it an interface has a link-local address, and answers neighbour solicitations. */
export const enableIp6 = call(
  shape("sw_interface_ip6_enable_disable", "ae6cfcfb", { ...index, enable: bool }),
  done("sw_interface_ip6_enable_disable"),
);

export const getLinkLocal = call(
  shape("sw_interface_ip6_get_link_local_address", "f9e6675e", index),
  shape("sw_interface_ip6_get_link_local_address_reply", "d16b7130", { retval: i32, ip: octets(16) }),
);

export const addNeighbor = call(
  shape("ip_neighbor_add_del", "0607c257", { is_add: bool, neighbor }),
  shape("ip_neighbor_add_del_reply", "1992deab", { retval: i32, stats_index: u32 }),
);

export const dumpNeighbors = dump(
  shape("ip_neighbor_dump", "d817a484", { ...index, af: u8 }),
  // VPP sends the age in its machine's own byte order.
  shape("ip_neighbor_details", "e29d79f0", { age: f64, neighbor }),
);

export const addRoute = call(
  shape("ip_route_add_del", "b8ecfe0d", { is_add: bool, is_multipath: bool, route }),
  shape("ip_route_add_del_reply", "1992deab", { retval: i32, stats_index: u32 }),
);

export const findRoute = call(
  shape("ip_route_lookup", "710d6471", { table_id: u32, exact: u8, prefix }),
  shape("ip_route_lookup_reply", "5d8febcb", { retval: i32, route }),
);
