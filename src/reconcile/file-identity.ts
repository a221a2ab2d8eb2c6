import { statSync } from "node:fs";

/**
 * Tells a file from another one that was put in its place; undefined where there is none. With the device, for the
 * topmost directory of every tmpfs has the same inode number.
 */
export function fileIdentity(path: string): string | undefined {
  const status = statSync(path, { throwIfNoEntry: false });
  return status && `${status.dev}:${status.ino}`;
}
