import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { isRecord } from "./is-record.ts";
import type { Delegate } from "./network.ts";

/** The two directories of the device-info specification. */
export interface DeviceInfoDirectories {
  /** Where device plugins write, `…/devinfo/dp`. */
  readonly devicePlugin: string;
  /** Where Multus copies to and CNI plugins write, `…/devinfo/cni`. */
  readonly cni: string;
}

/** The device-info file of an attachment; its name is unique to container and interface. */
export function cniDeviceInfoFile(directory: string, delegate: Delegate, containerId: string): string {
  return join(directory, `${delegate.id}-${containerId}_${delegate.ifName}`.replaceAll("/", "-"));
}

/** Copies the device plugin's file to the attachment's; a missing one, or a target that exists, is passed over. */
export async function copyDeviceInfo(
  directories: DeviceInfoDirectories,
  delegate: Delegate,
  target: string,
): Promise<void> {
  const { resourceName } = delegate.network;
  if (resourceName === undefined || delegate.deviceId === undefined) return;
  const name = `${resourceName}-${delegate.deviceId}-device.json`.replaceAll("/", "-");
  try {
    const text = await readFile(join(directories.devicePlugin, name), "utf8");
    await mkdir(directories.cni, { recursive: true });
    await writeFile(target, JSON.stringify(JSON.parse(text)), { mode: 0o444, flag: "wx" });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== "ENOENT" && code !== "EEXIST") throw error;
  }
}

/** What the attachment's file holds after ADD: the plugin may have rewritten it. */
export async function readDeviceInfo(file: string): Promise<object | undefined> {
  try {
    const value: unknown = JSON.parse(await readFile(file, "utf8"));
    if (!isRecord(value)) throw new Error(`${file} holds no object`);
    return value;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

/** Deletes the attachment's file, whichever program wrote it. */
export async function removeDeviceInfo(file: string): Promise<void> {
  await rm(file, { force: true });
}
