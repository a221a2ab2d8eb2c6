import { closeSync, constants, fstatSync, mkdirSync, openSync, readSync, unlinkSync } from "node:fs";
import { dirname, isAbsolute, join, normalize } from "node:path";
import { Failure, systemCode } from "../../failure/failure.ts";
import { removeTemporaries, replaceMemoryFile } from "../../files/replace-file.ts";
import { isBelow } from "../../names/unix-path.ts";
import type { VhostUserDeviceInfo } from "./device-info.ts";

/**
 * File of a device plugin's device (device-info-spec 1.1, section on file names): every `/` becomes `-`.
 * @param directory usually `/var/run/k8s.cni.cncf.io/devinfo`
 */
export function devicePluginFile(directory: string, resource: string, device: string): string {
  return join(directory, "dp", `${resource}-${device}-device.json`.replaceAll("/", "-"));
}

/** Checks the file name that Multus hands to a CNI plugin: it must lie in the directory for such files. */
export function checkCniFile(directory: string, file: string): string {
  const inRun = (path: string) => path.replace(/^\/var\/run\//, "/run/");
  if (!isAbsolute(file) || normalize(file) !== file || !isBelow(inRun(file), inRun(join(directory, "cni")))) {
    throw new Failure({
      code: "invalid-request",
      what: `device-info file ${JSON.stringify(file)} does not lie below ${join(directory, "cni")}`,
      where: "runtimeConfig.CNIDeviceInfoFile",
      fix: "set the daemon's deviceInfoDirectory to where Multus keeps these files",
    });
  }
  return file;
}

/**
 * Writes a device-info file, replacing one that is there; read-only for all, as the reference library does. At once:
 * the directory lies below /var/run, which is in memory on every node.
 */
export function writeDeviceInfo(file: string, info: VhostUserDeviceInfo): void {
  mkdirSync(dirname(file), { recursive: true, mode: 0o755 });
  replaceMemoryFile(file, textOf(info), 0o444);
}

/**
 * What is wrong with a device-info file, in words; undefined where it is as {@link writeDeviceInfo} writes it. Others
 * may write there, so nothing is followed, waited for or read that is not a file of the right length.
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

/** Removes a device-info file; gone already is fine. At once: what the caller has just checked is still true. */
export function removeDeviceInfo(file: string): void {
  try {
    unlinkSync(file);
  } catch (error) {
    if (systemCode(error) !== "ENOENT") throw error;
  }
}

/** Removes what a killed daemon left half written in the directories of device-info files. */
export async function removeDeviceInfoTemporaries(directory: string): Promise<void> {
  for (const kind of ["dp", "cni"]) await removeTemporaries(join(directory, kind));
}
