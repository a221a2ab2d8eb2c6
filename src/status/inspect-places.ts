import { lstatSync, type Stats } from "node:fs";
import { join } from "node:path";
import { SOCKET_FILE } from "../allocation/layout.ts";
import { type OpenDirectory, openDirectory } from "../allocation/open-directory.ts";
import { describeThrown, systemCode } from "../failure/failure.ts";
import type { InterfaceStatus, Place } from "./shape.ts";

const PERMISSIONS = 0o7777;

/** What is at the three paths of an interface or device. The pod owns the last of them, so no link is followed. */
export function inspectPlaces(
  root: string,
  allocation: string,
  name: string,
): NonNullable<InterfaceStatus["places"]> {
  const paths = {
    allocation: join(root, allocation),
    directory: join(root, allocation, name),
    socket: join(root, allocation, name, SOCKET_FILE),
  };
  const found: { allocation?: Place; directory?: Place; socket?: Place } = {};
  try {
    using top = openDirectory(root);
    using allocated = open(top, allocation);
    found.allocation = seen(paths.allocation, top, allocation);
    if (allocated !== undefined) {
      using own = open(allocated, name);
      found.directory = seen(paths.directory, allocated, name);
      if (own !== undefined) found.socket = seen(paths.socket, own, SOCKET_FILE);
    }
  } catch (error) {
    found.allocation ??= { path: paths.allocation, ...failed(error) };
  }
  return {
    allocation: found.allocation,
    directory: found.directory ?? { path: paths.directory, kind: "missing" },
    socket: found.socket ?? { path: paths.socket, kind: "missing" },
  };
}

/** Undefined also for what is not a directory; {@link seen} says what it is instead. */
function open(parent: OpenDirectory, name: string): OpenDirectory | undefined {
  try {
    return parent.openEntry(name);
  } catch {
    return undefined;
  }
}

function seen(path: string, parent: OpenDirectory, name: string): Place {
  try {
    return { path, ...describe(lstatSync(parent.entry(name))) };
  } catch (error) {
    return { path, ...failed(error) };
  }
}

function describe(status: Stats): Omit<Place, "path"> {
  const kind = status.isDirectory() ? "directory" : status.isSocket() ? "socket" : "other";
  const { uid: owner, gid: group, mode, birthtimeMs: madeAt } = status;
  return { kind, owner, group, mode: mode & PERMISSIONS, madeAt };
}

function failed(error: unknown): Omit<Place, "path"> {
  if (systemCode(error) === "ENOENT") return { kind: "missing" };
  return { kind: "unknown", reason: describeThrown(error) };
}
