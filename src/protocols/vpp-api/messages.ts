import { call, done, dump, index, made, shape } from "./call.ts";
import { array, bool, counted, group, i32, longText, octets, text, u8, u16, u32, u64 } from "./fields.ts";

// The messages that we use, field by field in VPP's own names (its *.api files); those about IP are in
// routing-messages.ts. The checksums are the same in all releases from 22.06 to 26.06; a test compares all of it with
// the descriptions of a build where one is at hand.

const action = group({ type: u8, dscp: u8 });

const vhost = {
  is_server: bool,
  sock_filename: text(256),
  renumber: bool,
  disable_mrg_rxbuf: bool,
  disable_indirect_desc: bool,
  enable_gso: bool,
  enable_packed: bool,
  enable_event_idx: bool,
  custom_dev_instance: u32,
  use_custom_mac: bool,
  mac_address: octets(6),
  tag: text(64),
};

const policer = {
  cir: u32,
  eir: u32,
  cb: u64,
  eb: u64,
  rate_type: u8,
  round_type: u8,
  type: u8,
};

const bridgeDomain = {
  flood: bool,
  uu_flood: bool,
  forward: bool,
  learn: bool,
  arp_term: bool,
  arp_ufwd: bool,
  mac_age: u8,
  bd_tag: text(64),
};

export const controlPing = call(
  shape("control_ping", "51077d14", {}),
  shape("control_ping_reply", "f6b0b8ca", { retval: i32, client_index: u32, vpe_pid: u32 }),
);

export const showVersion = call(
  shape("show_version", "51077d14", {}),
  shape("show_version_reply", "c919bde1", {
    retval: i32,
    program: text(32),
    version: text(32),
    build_date: text(32),
    build_directory: text(256),
  }),
);

export const createVhostUser = call(
  shape("create_vhost_user_if_v2", "dba1cc1d", vhost),
  made("create_vhost_user_if_v2"),
);

export const deleteVhostUser = call(
  shape("delete_vhost_user_if", "f9e6675e", index),
  done("delete_vhost_user_if"),
);

export const dumpVhostUser = dump(
  shape("sw_interface_vhost_user_dump", "f9e6675e", index),
  shape("sw_interface_vhost_user_details", "0cee1e53", {
    ...index,
    interface_name: text(64),
    virtio_net_hdr_sz: u32,
    features_first_32: u32,
    features_last_32: u32,
    is_server: bool,
    sock_filename: text(256),
    num_regions: u32,
    sock_errno: i32,
  }),
);

export const dumpInterfaces = dump(
  shape("sw_interface_dump", "aa610c27", { ...index, name_filter_valid: bool, name_filter: longText }),
  shape("sw_interface_details", "6c221fc7", {
    ...index,
    sup_sw_if_index: u32,
    l2_address: octets(6),
    flags: u32,
    type: u32,
    link_duplex: u32,
    link_speed: u32,
    link_mtu: u16,
    mtu: array(u32, 4),
    sub_id: u32,
    sub_number_of_tags: u8,
    sub_outer_vlan_id: u16,
    sub_inner_vlan_id: u16,
    sub_if_flags: u32,
    vtr_op: u32,
    vtr_push_dot1q: u32,
    vtr_tag1: u32,
    vtr_tag2: u32,
    outer_tag: u16,
    b_dmac: octets(6),
    b_smac: octets(6),
    b_vlanid: u16,
    i_sid: u32,
    interface_name: text(64),
    interface_dev_type: text(64),
    tag: text(64),
  }),
);

export const setInterfaceFlags = call(
  shape("sw_interface_set_flags", "f5aec1b8", { ...index, flags: u32 }),
  done("sw_interface_set_flags"),
);

export const tagInterface = call(
  shape("sw_interface_tag_add_del", "426f8bc1", { is_add: bool, ...index, tag: text(64) }),
  done("sw_interface_tag_add_del"),
);

export const setMtu = call(
  shape("sw_interface_set_mtu", "5cbe85e5", { ...index, mtu: array(u32, 4) }),
  done("sw_interface_set_mtu"),
);

export const createVlan = call(
  shape("create_vlan_subif", "af34ac8b", { ...index, vlan_id: u32 }),
  made("create_vlan_subif"),
);

export const deleteSubInterface = call(shape("delete_subif", "f9e6675e", index), done("delete_subif"));

export const dumpBridgeDomains = dump(
  shape("bridge_domain_dump", "74396a43", { bd_id: u32, sw_if_index: u32 }),
  shape("bridge_domain_details", "0fa506fd", {
    bd_id: u32,
    ...bridgeDomain,
    bvi_sw_if_index: u32,
    uu_fwd_sw_if_index: u32,
    sw_if_details: counted(u32, { context: u32, ...index, shg: u8 }),
  }),
);

export const addBridgeDomain = call(
  shape("bridge_domain_add_del", "600b7170", { bd_id: u32, ...bridgeDomain, is_add: bool }),
  done("bridge_domain_add_del"),
);

export const setBridge = call(
  shape("sw_interface_set_l2_bridge", "d0678b13", {
    rx_sw_if_index: u32,
    bd_id: u32,
    port_type: u32,
    shg: u8,
    enable: bool,
  }),
  done("sw_interface_set_l2_bridge"),
);

export const rewriteVlanTag = call(
  shape("l2_interface_vlan_tag_rewrite", "62cc0bbc", {
    ...index,
    vtr_op: u32,
    push_dot1q: u32,
    tag1: u32,
    tag2: u32,
  }),
  done("l2_interface_vlan_tag_rewrite"),
);

export const filterVlanTag = call(
  shape("l2_interface_efp_filter", "5501adee", { ...index, enable_disable: bool }),
  done("l2_interface_efp_filter"),
);

export const addPolicer = call(
  shape("policer_add_del", "2b31dd38", {
    is_add: bool,
    name: text(64),
    ...policer,
    color_aware: bool,
    conform_action: action,
    exceed_action: action,
    violate_action: action,
  }),
  shape("policer_add_del_reply", "a177cef2", { retval: i32, policer_index: u32 }),
);

export const dumpPolicers = dump(
  shape("policer_dump", "35f1ae0f", { match_name_valid: bool, match_name: text(64) }),
  shape("policer_details", "72d0e248", {
    name: text(64),
    ...policer,
    conform_action: action,
    exceed_action: action,
    violate_action: action,
    single_rate: bool,
    color_aware: bool,
    scale: u32,
    cir_tokens_per_period: u32,
    pir_tokens_per_period: u32,
    current_limit: u32,
    current_bucket: u32,
    extended_limit: u32,
    extended_bucket: u32,
    last_update_time: u64,
  }),
);

const applied = { name: text(64), ...index, apply: bool };
/** Limits what comes in by an interface. */
export const policeInput = call(shape("policer_input", "233f0ef5", applied), done("policer_input"));
/** Limits what goes out by an interface. */
export const policeOutput = call(shape("policer_output", "233f0ef5", applied), done("policer_output"));

/** Executes a line of VPP's command line; the answer is what it prints. */
export const executeLine = call(
  shape("cli_inband", "f8377302", { cmd: longText }),
  shape("cli_inband_reply", "05879051", { retval: i32, reply: longText }),
);

export const wantInterfaceEvents = call(
  shape("want_interface_events", "476f5a08", { enable_disable: u32, pid: u32 }),
  done("want_interface_events"),
);

export const interfaceEvent = shape("sw_interface_event", "2d3d95a7", {
  pid: u32,
  ...index,
  flags: u32,
  deleted: bool,
});

/** The index that stands for "all" or "none". */
export const ANY_INDEX = 0xffff_ffff;
