import { guard, type Operation } from "../../protocols/ovsdb/transaction.ts";
import { mapValue, newRowReference, type OvsdbValue, setValue } from "../../protocols/ovsdb/values.ts";
import { OWNER } from "./marks.ts";

/**
 * Makes a bridge of the userspace datapath with its own port, as `ovs-vsctl add-br` does, that already holds `port`;
 * aborts where there is one of that name meanwhile. The owner in external_ids only tells people who made it.
 */
export function insertBridge(name: string, port: OvsdbValue): Operation[] {
  return [
    guard("Bridge", [["name", "==", name]], ["name"], []),
    {
      op: "insert",
      table: "Interface",
      "uuid-name": "new_bridge_interface",
      row: { name, type: "internal" },
    },
    {
      op: "insert",
      table: "Port",
      "uuid-name": "new_bridge_port",
      row: { name, interfaces: newRowReference("new_bridge_interface") },
    },
    {
      op: "insert",
      table: "Bridge",
      "uuid-name": "new_bridge",
      row: {
        name,
        datapath_type: "netdev",
        ports: setValue([newRowReference("new_bridge_port"), port]),
        external_ids: mapValue({ owner: OWNER }),
      },
    },
    {
      op: "mutate",
      table: "Open_vSwitch",
      where: [],
      mutations: [["bridges", "insert", newRowReference("new_bridge")]],
    },
  ];
}
