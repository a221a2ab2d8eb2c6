import type { PortSettings } from "../../../config/port-settings.ts";
import type { PortOwner, PortRequest } from "../../port.ts";

/** Value of `external_ids:owner` on everything that is ours. */
export const OWNER = "kube-vhostuser";

type Ids = ReadonlyMap<string, string>;
type Marks = Readonly<Record<string, string>>;

/** Key in `external_ids` of each field of the owner. `attached-mac` is Open vSwitch's own convention. */
const OWNER_KEYS = {
  node: "node",
  allocationId: "allocation-id",
  interfaceName: "interface",
  containerId: "container-id",
  podNamespace: "pod-namespace",
  podName: "pod-name",
  podUid: "pod-uid",
  network: "network",
  mac: "attached-mac",
} as const satisfies Record<keyof PortOwner, string>;
const OWNER_FIELDS = Object.keys(OWNER_KEYS) as (keyof PortOwner)[];

/** Key in `external_ids` of the Interface row of a port whose socket the switch serves: where guests find it. */
export const SOCKET_KEY = "socket";
/** Key in `external_ids` of the Port row that names the settings which we have set, and may reset. */
const SETTINGS_KEY = "port-settings";

/** Our keys in `external_ids`; other keys belong to others and are not changed. */
export const MARK_KEYS: readonly string[] = ["owner", ...Object.values(OWNER_KEYS), SOCKET_KEY, SETTINGS_KEY];

/** `external_ids` of the Port row: enough to know whose it is, and what we have set of it. */
export function portMarks({ owner, settings }: Pick<PortRequest, "owner" | "settings">): Marks {
  const identity = ["node", "allocationId", "interfaceName"] as const;
  return marksOf(owner, identity, { [SETTINGS_KEY]: settingNames(settings).join(" ") });
}

/** `external_ids` of the Interface row: all that is known of the owner. */
export function interfaceMarks(request: PortRequest): Marks {
  const socket = isServedBySwitch(request) ? request.socketPath : "";
  return marksOf(request.owner, OWNER_FIELDS, { [SOCKET_KEY]: socket });
}

function marksOf(owner: PortOwner, fields: readonly (keyof PortOwner)[], further: Marks): Marks {
  const marks = { owner: OWNER, ...further };
  const entries = [...Object.entries(marks), ...fields.map((field) => [OWNER_KEYS[field], owner[field]])];
  return Object.fromEntries(entries.filter(([, value]) => value !== ""));
}

/** Before the key of an entry that {@link PortSettings} has in `externalIds`. */
export const EXTERNAL_ID = "id:";

/**
 * Names of all settings that are given, as the port's mark lists them: only what we have set is ever reset.
 * They hold no blank (check-request.ts), so that a mark can join them by blanks.
 */
export function settingNames(settings: PortSettings): readonly string[] {
  const { vlan, fromGuest, toGuest, transmitRetries, receiveQueueCores, isolated, security, dhcp } = settings;
  const given = { vlan, fromGuest, toGuest, transmitRetries, receiveQueueCores, isolated, security, dhcp };
  const names = Object.entries(given).flatMap(([name, value]) => (value === undefined ? [] : [name]));
  return [...names, ...Object.keys(settings.externalIds ?? {}).map((key) => EXTERNAL_ID + key)].sort();
}

/** The settings that we have set on a port: names of {@link settingNames}. */
export function settingsBefore(port: { readonly external_ids: Ids } | undefined): ReadonlySet<string> {
  return new Set((port?.external_ids.get(SETTINGS_KEY) ?? "").split(" ").filter((name) => name !== ""));
}

/** Whether the switch is to create the socket. */
export function isServedBySwitch({ settings }: Pick<PortRequest, "settings">): boolean {
  return settings.socketServer === "switch";
}

/** Whether a row is this node's, by its `external_ids`. */
export function isOurs(ids: Ids, node: string): boolean {
  return ids.get("owner") === OWNER && ids.get("node") === node;
}

/** Whether a Port row belongs to the same allocation and interface, in whatever sandbox. */
export function isSameAttachment(portIds: Ids, owner: PortOwner): boolean {
  return (
    isOurs(portIds, owner.node) &&
    portIds.get(OWNER_KEYS.allocationId) === owner.allocationId &&
    portIds.get(OWNER_KEYS.interfaceName) === owner.interfaceName
  );
}

/** The owner by the two rows; the Port row decides where they differ, what is missing is empty. */
export function readOwner(portIds: Ids, interfaceIds: Ids): PortOwner {
  const fields = OWNER_FIELDS.map((field) => {
    const key = OWNER_KEYS[field];
    return [field, portIds.get(key) ?? interfaceIds.get(key) ?? ""] as const;
  });
  return Object.fromEntries(fields) as Record<keyof PortOwner, string>;
}

/** Whether `ids` holds exactly these of our keys, whatever else it holds. */
export function hasMarks(ids: Ids, marks: Marks): boolean {
  return MARK_KEYS.every((key) => ids.get(key) === marks[key]);
}
