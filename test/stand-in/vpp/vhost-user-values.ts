import type { Asked } from "../../../src/protocols/vpp-api/call.ts";
import type { createVhostUser } from "../../../src/protocols/vpp-api/messages.ts";

/** What a client asks of VPP for a vhost-user interface with all its features, VPP connecting to the socket. */
export function vhostUserValues(sock_filename: string, tag: string): Asked<typeof createVhostUser> {
  return {
    is_server: false,
    sock_filename,
    renumber: false,
    disable_mrg_rxbuf: false,
    disable_indirect_desc: false,
    enable_gso: false,
    enable_packed: false,
    enable_event_idx: false,
    custom_dev_instance: 0,
    use_custom_mac: false,
    mac_address: Buffer.alloc(6),
    tag,
  };
}
