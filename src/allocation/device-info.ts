import { closeSync, constants, fstatSync, mkdirSync, openSync, readSync, unlinkSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import * as z from "zod";
import { Failure, systemCode } from "../failure/failure.ts";
import { removeTemporaries, replaceMemoryFile } from "../files/replace-file.ts";

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

/**
 * File of a device plugin's device (device-info-spec 1.1, section on file names): every `/` becomes `-`.
 * @param directory usually `/var/run/k8s.cni.cncf.io/devinfo`
 */
export function devicePluginFile(directory: string, resource: string, device: string): string {
  return join(directory, "dp", `${resource}-${device}-device.json`.replaceAll("/", "-"));
}

/** NAME_MAX of Linux, in bytes. */
const NAME_MAX = 255;

/**
 * Checks the path that Multus hands to a CNI plugin (`CNIDeviceInfoFile`, device-info-spec 1.1): one name directly in
 * the directory for such files, because the file is written and removed later.
 * @throws Failure `invalid-request`
 */
export function checkCniFile(directory: string, file: string): string {
  const inRun = (path: string) => path.replace(/^\/var\/run\//, "/run/");
  const name = basename(file);
  const isPlain =
    !["", ".", ".."].includes(name) && !name.includes("\0") && Buffer.byteLength(name) <= NAME_MAX;
  if (!isPlain || inRun(file) !== inRun(join(directory, "cni", name))) {
    throw new Failure({
      code: "invalid-request",
      what: `device-info file ${JSON.stringify(file.slice(0, 500))} is not a name of at most ${NAME_MAX} bytes directly in ${join(directory, "cni")}`,
      where: "runtimeConfig.CNIDeviceInfoFile",
      fix: "set the daemon's deviceInfoDirectory to where Multus keeps these files; a network's name must be short enough",
    });
  }
  return file;
}

/**
 * Writes a device-info file, replacing one that is there; read-only for all, as the reference library does. At once:
 * the directory lies below /var/run, which is in memory on every node.
 */
export function writeDeviceInfo(file: string, info: VhostUserDeviceInfo): void {
  const replace = () => replaceMemoryFile(file, textOf(info), 0o444);
  try {
    replace();
  } catch (error) {
    if (systemCode(error) !== "ENOENT") throw error;
    mkdirSync(dirname(file), { recursive: true, mode: 0o755 });
    replace();
  }
}

/**
 * What is wrong with a device-info file, in words; undefined where it is as {@link writeDeviceInfo} writes it. Others
 * may write there, so only a file of the right length is read, and no link is followed.
 */
export function deviceInfoProblem(file: string, info: VhostUserDeviceInfo): string | undefined {
  const wanted = Buffer.from(textOf(info));
  let descriptor: number | undefined;
  try {
    descriptor = openSync(file, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    const status = fstatSync(descriptor);
    if (!status.isFile()) return "it is not a file";
    if (status.size !== wanted.length) return "it says something else";
    const found = Buffer.alloc(wanted.length);
    const length = readSync(descriptor, found, 0, found.length, 0);
    return length === found.length && found.equals(wanted) ? undefined : "it says something else";
  } catch (error) {
    const code = systemCode(error);
    if (code === "ENOENT") return "it is gone";
    return code === "ELOOP" ? "it is a link" : `it cannot be read: ${code}`;
  } finally {
    if (descriptor !== undefined) closeSync(descriptor);
  }
}

function textOf(info: VhostUserDeviceInfo): string {
  return `${JSON.stringify(info)}\n`;
}

/**
 * Removes a device-info file. One that cannot be unlinked, because it is gone or another thing is in its place, must
 * not keep an allocation or a port from being removed: a file that stays is replaced with the device's next pod.
 */
export function removeDeviceInfo(file: string): void {
  try {
    // At once: what the caller has just checked is still true.
    unlinkSync(file);
  } catch {
    // Nothing of ours is there.
  }
}

/** Removes what a killed daemon left half written in the directories of device-info files. */
export async function removeDeviceInfoTemporaries(directory: string): Promise<void> {
  for (const kind of ["dp", "cni"]) await removeTemporaries(join(directory, kind));
}
