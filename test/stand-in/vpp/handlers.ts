import { done, type Handler } from "./outcome.ts";
import { ROUTING_HANDLERS } from "./routing-handlers.ts";
import type { Interface, SwitchState } from "./state.ts";
import type { Fields } from "./wire-format.ts";

const ALL = 0xffff_ffff;

/** Handlers of a request about one interface that has to be there. */
function onInterface(name: string, act: (found: Interface, ask: Fields) => number): [string, Handler] {
  const handler: Handler = (state, ask) => {
    const found = state.interfaces.get(Number(ask.sw_if_index));
    return done(name, found === undefined ? -2 : act(found, ask));
  };
  return [name, handler];
}

const createVhost: Handler = (state, ask) => {
  const [retval, sw_if_index] = state.createVhost(ask);
  const changed = retval === 0 ? [{ index: sw_if_index, deleted: false }] : [];
  return { ...done("create_vhost_user_if_v2", retval, { sw_if_index }), changed };
};

/** What the stand-in does, by request. */
export const HANDLERS: ReadonlyMap<string, Handler> = new Map([
  ["control_ping", () => done("control_ping", 0, { client_index: 0, vpe_pid: process.pid })],
  ["show_version", () => done("show_version", 0)],
  ["create_vhost_user_if_v2", createVhost],
  [
    "delete_vhost_user_if",
    (state, ask) => {
      const gone = state.deleteVhost(Number(ask.sw_if_index));
      const changed = gone.map((index) => ({ index, deleted: true }));
      return { ...done("delete_vhost_user_if", gone.length === 0 ? -2 : 0), changed };
    },
  ],
  [
    "sw_interface_vhost_user_dump",
    (state, { sw_if_index }) => ({
      says: [...state.interfaces.values()]
        .filter((one) => one.vhost !== undefined && (sw_if_index === ALL || sw_if_index === one.index))
        .map((one) => ["sw_interface_vhost_user_details", vhostDetails(one)]),
    }),
  ],
  [
    "sw_interface_dump",
    (state, { sw_if_index, name_filter_valid, name_filter }) => ({
      says: [...state.interfaces.values()]
        .filter(({ index, name }) =>
          name_filter_valid === true
            ? name.toLowerCase().includes(String(name_filter).toLowerCase())
            : sw_if_index === ALL || sw_if_index === 0 || sw_if_index === index,
        )
        .map((one) => ["sw_interface_details", details(state, one)]),
    }),
  ],
  [
    "sw_interface_set_flags",
    (state, ask) => {
      const found = state.interfaces.get(Number(ask.sw_if_index));
      if (found === undefined) return done("sw_interface_set_flags", -2);
      found.adminUp = (Number(ask.flags) & 1) === 1;
      return { ...done("sw_interface_set_flags", 0), changed: [{ index: found.index, deleted: false }] };
    },
  ],
  onInterface("sw_interface_tag_add_del", (found, { is_add, tag }) => {
    if (is_add === true && tag === "") return -7;
    found.tag = is_add === true ? String(tag) : "";
    return 0;
  }),
  onInterface("sw_interface_set_mtu", (found, { mtu }) => {
    found.mtu = mtu as number[];
    return 0;
  }),
  [
    "create_vlan_subif",
    (state, ask) => {
      const [retval, sw_if_index] = state.createVlan(Number(ask.sw_if_index), Number(ask.vlan_id));
      const changed = retval === 0 ? [{ index: sw_if_index, deleted: false }] : [];
      return { ...done("create_vlan_subif", retval, { sw_if_index }), changed };
    },
  ],
  [
    "delete_subif",
    (state, ask) => {
      const index = Number(ask.sw_if_index);
      const retval = state.deleteVlan(index);
      return { ...done("delete_subif", retval), changed: retval === 0 ? [{ index, deleted: true }] : [] };
    },
  ],
  ["want_interface_events", () => done("want_interface_events", 0)],
  ["sw_interface_set_l2_bridge", (state, ask) => done("sw_interface_set_l2_bridge", state.setBridge(ask))],
  [
    "bridge_domain_add_del",
    (state, ask) =>
      done(
        "bridge_domain_add_del",
        ask.is_add === true ? state.addBridge(ask) : state.deleteBridge(Number(ask.bd_id)),
      ),
  ],
  [
    "bridge_domain_dump",
    (state, { bd_id }) => ({
      says: [...state.bridges.values()]
        .filter((bridge) => bd_id === ALL || bd_id === bridge.bd_id)
        .map((bridge) => ["bridge_domain_details", bridgeDetails(state, bridge)]),
    }),
  ],
  [
    "l2_interface_vlan_tag_rewrite",
    (state, ask) => done("l2_interface_vlan_tag_rewrite", state.rewrite(ask)),
  ],
  onInterface("l2_interface_efp_filter", (found, { enable_disable }) => {
    found.filtered = enable_disable === true;
    return 0;
  }),
  [
    "policer_add_del",
    (state, ask) => {
      const retval = ask.is_add === true ? state.addPolicer(ask) : state.deletePolicer(String(ask.name));
      return done("policer_add_del", retval, {
        policer_index: retval === 0 && ask.is_add === true ? 0 : ALL,
      });
    },
  ],
  [
    "policer_dump",
    (state, { match_name_valid, match_name }) => ({
      says: [...state.policers.values()]
        .filter(({ name }) => match_name_valid !== true || name === match_name)
        .map((policer) => ["policer_details", { ...policer, single_rate: policer.type === 0 }]),
    }),
  ],
  ["policer_input", (state, ask) => done("policer_input", state.police("in", ask))],
  ["policer_output", (state, ask) => done("policer_output", state.police("out", ask))],
  ["cli_inband", ({ generator }, { cmd }) => done("cli_inband", ...generator.execute(String(cmd)))],
  ...ROUTING_HANDLERS,
]);

/** if_status_flags of an interface. */
export function flagsOf(one: Interface | undefined): number {
  return one === undefined ? 0 : (one.adminUp ? 1 : 0) | (one.guest ? 2 : 0);
}

function vhostDetails({ index, name, vhost, guest }: Interface): Fields {
  return {
    sw_if_index: index,
    interface_name: name,
    virtio_net_hdr_sz: guest ? 12 : 0,
    is_server: vhost?.isServer,
    sock_filename: vhost?.path,
    num_regions: guest ? 1 : 0,
    sock_errno: vhost?.socket.errno,
  };
}

function details(state: SwitchState, one: Interface): Fields {
  const above = state.interfaces.get(one.parent);
  const isSub = one.parent !== one.index;
  const [vtr_op, vtr_push_dot1q, vtr_tag1, vtr_tag2] = one.rewrite;
  return {
    sw_if_index: one.index,
    sup_sw_if_index: one.parent,
    flags: flagsOf(isSub && above !== undefined ? { ...one, guest: above.guest } : one),
    type: isSub ? 1 : 0,
    link_mtu: above?.vhost === undefined ? 0 : 9000,
    mtu: one.mtu,
    l2_address: one.mac,
    sub_id: one.vlan,
    sub_number_of_tags: isSub ? 1 : 0,
    sub_outer_vlan_id: one.vlan,
    sub_if_flags: isSub ? 18 : 0,
    vtr_op,
    vtr_push_dot1q,
    vtr_tag1,
    vtr_tag2,
    interface_name: one.name,
    interface_dev_type: above?.device ?? "local",
    tag: one.tag,
  };
}

function bridgeDetails(state: SwitchState, bridge: Fields): Fields {
  const members = state.membersOf(Number(bridge.bd_id));
  return {
    ...bridge,
    bvi_sw_if_index: ALL,
    uu_fwd_sw_if_index: ALL,
    sw_if_details: members.map(({ index, member }) => ({ sw_if_index: index, shg: member?.group })),
  };
}
