import { z } from "zod";

/** Version that we write (device-info-spec of the Network Plumbing Working Group). */
const DEVICE_INFO_VERSION = "1.1.0";

/**
 * device-info of a vhost-user device. `mode` names the container's side: `server` means that the app in the
 * container (QEMU) creates the socket and the switch connects. `path` is the socket as the container sees it.
 */
export const vhostUserDeviceInfoSchema = z.looseObject({
  type: z.literal("vhost-user"),
  version: z.string(),
  "vhost-user": z.looseObject({ mode: z.enum(["client", "server"]), path: z.string().min(1) }),
});

export type VhostUserDeviceInfo = z.infer<typeof vhostUserDeviceInfoSchema>;

/** The device-info of a socket, by who creates it: the app in the container (`guest`, the default) or the switch. */
export function vhostUserDeviceInfo(
  path: string,
  socketServer: "guest" | "switch" = "guest",
): VhostUserDeviceInfo {
  const mode = socketServer === "guest" ? "server" : "client";
  return { type: "vhost-user", version: DEVICE_INFO_VERSION, "vhost-user": { mode, path } };
}
