import { call, creation, dump, each, order, type Shape } from "./call.ts";
import { array, bool, counted, group, i32, longText, octets, text, u8, u16, u32, u64 } from "./fields.ts";

// The messages that we use, field by field in VPP's own names (its *.api files); those about IP are in
// routing-messages.ts. The checksums are the same in all releases from 22.06 to 26.06; a test compares all of it with
// the descriptions of a build where one is at hand.

const index = { sw_if_index: u32 };
const policer = {
  ...each(u32, "cir", "eir"),
  ...each(u64, "cb", "eb"),
  ...each(u8, "rate_type", "round_type", "type"),
};
const actions = each(group({ type: u8, dscp: u8 }), "conform_action", "exceed_action", "violate_action");
const bridgeDomain = {
  ...each(bool, "flood", "uu_flood", "forward", "learn", "arp_term", "arp_ufwd"),
  mac_age: u8,
  bd_tag: text(64),
};

export const controlPing = call(
  "control_ping",
  ["51077d14", {}],
  ["f6b0b8ca", { retval: i32, ...each(u32, "client_index", "vpe_pid") }],
);

const versionTexts = { ...each(text(32), "program", "version", "build_date"), build_directory: text(256) };
export const showVersion = call(
  "show_version",
  ["51077d14", {}],
  ["c919bde1", { retval: i32, ...versionTexts }],
);

export const createVhostUser = creation("create_vhost_user_if_v2", "dba1cc1d", {
  is_server: bool,
  sock_filename: text(256),
  ...each(bool, "renumber", "disable_mrg_rxbuf", "disable_indirect_desc"),
  ...each(bool, "enable_gso", "enable_packed", "enable_event_idx"),
  custom_dev_instance: u32,
  use_custom_mac: bool,
  mac_address: octets(6),
  tag: text(64),
});

export const deleteVhostUser = order("delete_vhost_user_if", "f9e6675e", index);

const vhostUser = {
  ...index,
  interface_name: text(64),
  ...each(u32, "virtio_net_hdr_sz", "features_first_32", "features_last_32"),
  is_server: bool,
  sock_filename: text(256),
  num_regions: u32,
  sock_errno: i32,
};
export const dumpVhostUser = dump("sw_interface_vhost_user", ["f9e6675e", index], ["0cee1e53", vhostUser]);

const interfaceFields = {
  ...each(u32, "sw_if_index", "sup_sw_if_index"),
  l2_address: octets(6),
  ...each(u32, "flags", "type", "link_duplex", "link_speed"),
  link_mtu: u16,
  mtu: array(u32, 4),
  sub_id: u32,
  sub_number_of_tags: u8,
  ...each(u16, "sub_outer_vlan_id", "sub_inner_vlan_id"),
  ...each(u32, "sub_if_flags", "vtr_op", "vtr_push_dot1q", "vtr_tag1", "vtr_tag2"),
  outer_tag: u16,
  ...each(octets(6), "b_dmac", "b_smac"),
  b_vlanid: u16,
  i_sid: u32,
  ...each(text(64), "interface_name", "interface_dev_type", "tag"),
};
export const dumpInterfaces = dump(
  "sw_interface",
  ["aa610c27", { ...index, name_filter_valid: bool, name_filter: longText }],
  ["6c221fc7", interfaceFields],
);

export const setInterfaceFlags = order("sw_interface_set_flags", "f5aec1b8", { ...index, flags: u32 });

export const tagInterface = order("sw_interface_tag_add_del", "426f8bc1", {
  is_add: bool,
  ...index,
  tag: text(64),
});

export const setMtu = order("sw_interface_set_mtu", "5cbe85e5", { ...index, mtu: array(u32, 4) });

export const createVlan = creation("create_vlan_subif", "af34ac8b", { ...index, vlan_id: u32 });

export const deleteSubInterface = order("delete_subif", "f9e6675e", index);

const member = { context: u32, ...index, shg: u8 };
export const dumpBridgeDomains = dump(
  "bridge_domain",
  ["74396a43", each(u32, "bd_id", "sw_if_index")],
  [
    "0fa506fd",
    {
      bd_id: u32,
      ...bridgeDomain,
      ...each(u32, "bvi_sw_if_index", "uu_fwd_sw_if_index"),
      sw_if_details: counted(u32, member),
    },
  ],
);

export const addBridgeDomain = order("bridge_domain_add_del", "600b7170", {
  bd_id: u32,
  ...bridgeDomain,
  is_add: bool,
});

export const setBridge = order("sw_interface_set_l2_bridge", "d0678b13", {
  ...each(u32, "rx_sw_if_index", "bd_id", "port_type"),
  shg: u8,
  enable: bool,
});

const vlanTag = each(u32, "sw_if_index", "vtr_op", "push_dot1q", "tag1", "tag2");
export const rewriteVlanTag = order("l2_interface_vlan_tag_rewrite", "62cc0bbc", vlanTag);

export const filterVlanTag = order("l2_interface_efp_filter", "5501adee", { ...index, enable_disable: bool });

export const addPolicer = call(
  "policer_add_del",
  ["2b31dd38", { is_add: bool, name: text(64), ...policer, color_aware: bool, ...actions }],
  ["a177cef2", { retval: i32, policer_index: u32 }],
);

const policerDetails = {
  name: text(64),
  ...policer,
  ...actions,
  ...each(bool, "single_rate", "color_aware"),
  ...each(u32, "scale", "cir_tokens_per_period", "pir_tokens_per_period"),
  ...each(u32, "current_limit", "current_bucket", "extended_limit", "extended_bucket"),
  last_update_time: u64,
};
export const dumpPolicers = dump(
  "policer",
  ["35f1ae0f", { match_name_valid: bool, match_name: text(64) }],
  ["72d0e248", policerDetails],
);

const applied = { name: text(64), ...index, apply: bool };
/** Limits what comes in by an interface. */
export const policeInput = order("policer_input", "233f0ef5", applied);
/** Limits what goes out by an interface. */
export const policeOutput = order("policer_output", "233f0ef5", applied);

/** Executes a line of VPP's command line; the answer is what it prints. */
export const executeLine = call(
  "cli_inband",
  ["f8377302", { cmd: longText }],
  ["05879051", { retval: i32, reply: longText }],
);

export const wantInterfaceEvents = order(
  "want_interface_events",
  "476f5a08",
  each(u32, "enable_disable", "pid"),
);

const event = { ...each(u32, "pid", "sw_if_index", "flags"), deleted: bool };
/** What VPP sends by itself once {@link wantInterfaceEvents} asked for it. */
export const interfaceEvent: Shape<typeof event> = {
  name: "sw_interface_event",
  crc: "2d3d95a7",
  layout: event,
};

/** The index that stands for "all" or "none". */
export const ANY_INDEX = 0xffff_ffff;
