import { stat } from "node:fs/promises";
import { systemCode } from "../failure/failure.ts";

/**
 * Distinguishes a socket file from one that replaced it; undefined where no socket exists. The inode number alone does
 * not: file systems give a freed number to the next file at once.
 */
export async function socketIdentity(path: string): Promise<string | undefined> {
  try {
    const { dev, ino, birthtimeNs, ctimeNs } = await stat(path, { bigint: true });
    return `${dev}:${ino}:${birthtimeNs === 0n ? ctimeNs : birthtimeNs}`;
  } catch (error) {
    const code = systemCode(error);
    if (code === "ENOENT" || code === "ENOTDIR") return undefined;
    throw error;
  }
}
