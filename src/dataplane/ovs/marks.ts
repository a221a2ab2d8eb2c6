import type { PortOwner, PortRequest } from "../port.ts";
import { settingNames } from "./setting-cells.ts";

/** Value of `external_ids:owner` on everything that is ours. */
export const OWNER = "kube-vhostuser";

type Marks = Readonly<Record<string, string>>;

/** Key in `external_ids` of the Port row that names the settings which we have set, and may reset. */
const SETTINGS_KEY = "port-settings";

function attachmentMarks(owner: PortOwner): Marks {
  return {
    owner: OWNER,
    node: owner.node,
    "container-id": owner.containerId,
    interface: owner.interfaceName,
  };
}

/** `external_ids` of the Port row: enough to know whose it is, and what we have set of it. */
export function portMarks({ owner, settings }: Pick<PortRequest, "owner" | "settings">): Marks {
  const names = settingNames(settings).join(" ");
  return { ...attachmentMarks(owner), ...(names === "" ? {} : { [SETTINGS_KEY]: names }) };
}

/** The settings that we have set on a port: names of {@link settingNames}. */
export function settingsBefore(portIds: ReadonlyMap<string, string>): ReadonlySet<string> {
  return new Set((portIds.get(SETTINGS_KEY) ?? "").split(" ").filter((name) => name !== ""));
}

/** Key in `external_ids` of the Interface row of a port whose socket the switch serves: where guests find it. */
export const SOCKET_KEY = "socket";

/** `external_ids` of the Interface row: all that is known of the owner. `attached-mac` is OVS' own convention. */
export function interfaceMarks(request: PortRequest): Marks {
  const { owner } = request;
  const marks = {
    ...attachmentMarks(owner),
    "pod-namespace": owner.podNamespace,
    "pod-name": owner.podName,
    "pod-uid": owner.podUid,
    network: owner.network,
    "allocation-id": owner.allocationId,
    "attached-mac": owner.mac,
    [SOCKET_KEY]: isServedBySwitch(request) ? request.socketPath : "",
  };
  return Object.fromEntries(Object.entries(marks).filter(([, value]) => value !== ""));
}

/** Keys of {@link portMarks} and {@link interfaceMarks}; other keys in `external_ids` belong to others and stay as they are. */
export const MARK_KEYS = [
  "owner",
  "node",
  "container-id",
  "interface",
  "pod-namespace",
  "pod-name",
  "pod-uid",
  "network",
  "allocation-id",
  "attached-mac",
  SOCKET_KEY,
  SETTINGS_KEY,
] as const;

/** Whether the switch is to make the socket. */
export function isServedBySwitch({ settings }: Pick<PortRequest, "settings">): boolean {
  return settings.socketServer === "switch";
}

/** Whether a Port row is this node's, by its `external_ids`. */
export function isOurs(portIds: ReadonlyMap<string, string>, node: string): boolean {
  return portIds.get("owner") === OWNER && portIds.get("node") === node;
}

/** Whether a Port row belongs to the same container and interface. */
export function isSameAttachment(portIds: ReadonlyMap<string, string>, owner: PortOwner): boolean {
  return (
    isOurs(portIds, owner.node) &&
    portIds.get("container-id") === owner.containerId &&
    portIds.get("interface") === owner.interfaceName
  );
}

/** The owner as the two rows tell it; the Port row decides where they differ, what is missing is empty. */
export function readOwner(
  portIds: ReadonlyMap<string, string>,
  interfaceIds: ReadonlyMap<string, string>,
): PortOwner {
  const read = (key: (typeof MARK_KEYS)[number]) => portIds.get(key) ?? interfaceIds.get(key) ?? "";
  return {
    node: read("node"),
    podNamespace: read("pod-namespace"),
    podName: read("pod-name"),
    podUid: read("pod-uid"),
    containerId: read("container-id"),
    interfaceName: read("interface"),
    network: read("network"),
    mac: read("attached-mac"),
    allocationId: read("allocation-id"),
  };
}

/** Whether `ids` holds exactly these of our keys, whatever else it holds. */
export function hasMarks(ids: ReadonlyMap<string, string>, marks: Marks): boolean {
  return MARK_KEYS.every((key) => ids.get(key) === marks[key]);
}
