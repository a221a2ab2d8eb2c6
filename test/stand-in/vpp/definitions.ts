/**
 * The messages that the stand-in speaks: name, checksum, fields. Written from VPP's *.api files and from what a real
 * VPP put on the wire, apart from src/protocols/vpp-api, so that an error there does not show here too.
 *
 * Kinds of fields: u8 u16 u32 i32 u64 flag, text64 (64 bytes, ended and filled up by NULs), raw6 (6 bytes),
 * u32x4 (4 of them), chars (length in u32, then as many bytes), double (8 bytes), labels16 (16 labels of 7 bytes),
 * details{...} (count in u32, then as many), ways{...} (the same with the count in u8), part{...} (fields of their own,
 * which are read as if they were the message's).
 */
export const REQUESTS = `
control_ping                  51077d14
show_version                  51077d14
create_vhost_user_if_v2       dba1cc1d flag is_server, text256 sock_filename, flag renumber, flag disable_mrg_rxbuf, flag disable_indirect_desc, flag enable_gso, flag enable_packed, flag enable_event_idx, u32 custom_dev_instance, flag use_custom_mac, raw6 mac_address, text64 tag
delete_vhost_user_if          f9e6675e u32 sw_if_index
sw_interface_vhost_user_dump  f9e6675e u32 sw_if_index
sw_interface_dump             aa610c27 u32 sw_if_index, flag name_filter_valid, chars name_filter
sw_interface_set_flags        f5aec1b8 u32 sw_if_index, u32 flags
sw_interface_tag_add_del      426f8bc1 flag is_add, u32 sw_if_index, text64 tag
sw_interface_set_mtu          5cbe85e5 u32 sw_if_index, u32x4 mtu
create_vlan_subif             af34ac8b u32 sw_if_index, u32 vlan_id
delete_subif                  f9e6675e u32 sw_if_index
want_interface_events         476f5a08 u32 enable_disable, u32 pid
sw_interface_set_l2_bridge    d0678b13 u32 rx_sw_if_index, u32 bd_id, u32 port_type, u8 shg, flag enable
bridge_domain_add_del         600b7170 u32 bd_id, flag flood, flag uu_flood, flag forward, flag learn, flag arp_term, flag arp_ufwd, u8 mac_age, text64 bd_tag, flag is_add
bridge_domain_dump            74396a43 u32 bd_id, u32 sw_if_index
l2_interface_vlan_tag_rewrite 62cc0bbc u32 sw_if_index, u32 vtr_op, u32 push_dot1q, u32 tag1, u32 tag2
l2_interface_efp_filter       5501adee u32 sw_if_index, flag enable_disable
policer_add_del               2b31dd38 flag is_add, text64 name, u32 cir, u32 eir, u64 cb, u64 eb, u8 rate_type, u8 round_type, u8 type, flag color_aware, raw2 conform_action, raw2 exceed_action, raw2 violate_action
policer_dump                  35f1ae0f flag match_name_valid, text64 match_name
policer_input                 233f0ef5 text64 name, u32 sw_if_index, flag apply
policer_output                233f0ef5 text64 name, u32 sw_if_index, flag apply
ip_table_add_del              0ffdaec0 flag is_add, part{u32 table_id, flag is_ip6, text64 name} table
ip_table_dump                 51077d14
sw_interface_set_table        df42a577 u32 sw_if_index, flag is_ipv6, u32 vrf_id
sw_interface_get_table        2d033de4 u32 sw_if_index, flag is_ipv6
create_loopback               42bb5d22 raw6 mac_address
delete_loopback               f9e6675e u32 sw_if_index
sw_interface_add_del_address  5463d73b u32 sw_if_index, flag is_add, flag del_all, part{u8 af, raw16 un, u8 len} prefix
ip_address_dump               2d033de4 u32 sw_if_index, flag is_ipv6
sw_interface_set_unnumbered   154a6439 u32 sw_if_index, u32 unnumbered_sw_if_index, flag is_add
ip_unnumbered_dump            f9e6675e u32 sw_if_index
sw_interface_ip6_enable_disable         ae6cfcfb u32 sw_if_index, flag enable
sw_interface_ip6_get_link_local_address f9e6675e u32 sw_if_index
ip_neighbor_add_del           0607c257 flag is_add, part{u32 sw_if_index, u8 flags, raw6 mac_address, u8 af, raw16 un} neighbor
ip_neighbor_dump              d817a484 u32 sw_if_index, u8 af
ip_route_add_del              b8ecfe0d flag is_add, flag is_multipath, part{u32 table_id, u32 stats_index, part{u8 af, raw16 un, u8 len} prefix, ways{u32 sw_if_index, u32 table_id, u32 rpf_id, u8 weight, u8 preference, u32 type, u32 flags, u32 proto, part{raw16 address, u32 via_label, u32 obj_id, u32 classify_table_index} nh, u8 n_labels, labels16 label_stack} paths} route
ip_route_lookup               710d6471 u32 table_id, u8 exact, part{u8 af, raw16 un, u8 len} prefix
cli_inband                    f8377302 chars cmd
`;

/** Answers, details and events; an answer that is missing here has a retval only. */
export const ANSWERS = `
control_ping_reply               f6b0b8ca i32 retval, u32 client_index, u32 vpe_pid
show_version_reply               c919bde1 i32 retval, text32 program, text32 version, text32 build_date, text256 build_directory
create_vhost_user_if_v2_reply    5383d31f i32 retval, u32 sw_if_index
create_vlan_subif_reply          5383d31f i32 retval, u32 sw_if_index
policer_add_del_reply            a177cef2 i32 retval, u32 policer_index
sw_interface_vhost_user_details  0cee1e53 u32 sw_if_index, text64 interface_name, u32 virtio_net_hdr_sz, u32 features_first_32, u32 features_last_32, flag is_server, text256 sock_filename, u32 num_regions, i32 sock_errno
sw_interface_details             6c221fc7 u32 sw_if_index, u32 sup_sw_if_index, raw6 l2_address, u32 flags, u32 type, u32 link_duplex, u32 link_speed, u16 link_mtu, u32x4 mtu, u32 sub_id, u8 sub_number_of_tags, u16 sub_outer_vlan_id, u16 sub_inner_vlan_id, u32 sub_if_flags, u32 vtr_op, u32 vtr_push_dot1q, u32 vtr_tag1, u32 vtr_tag2, u16 outer_tag, raw6 b_dmac, raw6 b_smac, u16 b_vlanid, u32 i_sid, text64 interface_name, text64 interface_dev_type, text64 tag
bridge_domain_details            0fa506fd u32 bd_id, flag flood, flag uu_flood, flag forward, flag learn, flag arp_term, flag arp_ufwd, u8 mac_age, text64 bd_tag, u32 bvi_sw_if_index, u32 uu_fwd_sw_if_index, details{u32 context, u32 sw_if_index, u8 shg} sw_if_details
policer_details                  72d0e248 text64 name, u32 cir, u32 eir, u64 cb, u64 eb, u8 rate_type, u8 round_type, u8 type, raw2 conform_action, raw2 exceed_action, raw2 violate_action, flag single_rate, flag color_aware, u32 scale, u32 cir_tokens_per_period, u32 pir_tokens_per_period, u32 current_limit, u32 current_bucket, u32 extended_limit, u32 extended_bucket, u64 last_update_time
ip_table_details                 c79fca0f part{u32 table_id, flag is_ip6, text64 name} table
sw_interface_get_table_reply     a6eb0109 i32 retval, u32 vrf_id
create_loopback_reply            5383d31f i32 retval, u32 sw_if_index
ip_address_details               ee29b797 u32 sw_if_index, part{u8 af, raw16 un, u8 len} prefix
ip_unnumbered_details            cc59bd42 u32 sw_if_index, u32 ip_sw_if_index
sw_interface_ip6_get_link_local_address_reply d16b7130 i32 retval, raw16 ip
ip_neighbor_add_del_reply        1992deab i32 retval, u32 stats_index
ip_neighbor_details              e29d79f0 double age, part{u32 sw_if_index, u8 flags, raw6 mac_address, u8 af, raw16 un} neighbor
ip_route_add_del_reply           1992deab i32 retval, u32 stats_index
ip_route_lookup_reply            5d8febcb i32 retval, part{u32 table_id, u32 stats_index, part{u8 af, raw16 un, u8 len} prefix, ways{u32 sw_if_index, u32 table_id, u32 rpf_id, u8 weight, u8 preference, u32 type, u32 flags, u32 proto, part{raw16 address, u32 via_label, u32 obj_id, u32 classify_table_index} nh, u8 n_labels, labels16 label_stack} paths} route
cli_inband_reply                 05879051 i32 retval, chars reply
sw_interface_event               2d3d95a7 u32 pid, u32 sw_if_index, u32 flags, flag deleted
`;

/** Checksum of an answer with nothing but a retval. */
export const RETVAL_CHECKSUM = "e8d4e804";
